"""The reduction kinds of the dialect, and their meaning element by element (numpy's ufuncs)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError, ReductionError

__all__ = ["KINDS", "ReductionKind", "as_reduction", "identity", "is_numeric", "reduces", "result_dtype"]


@dataclass(frozen=True, slots=True)
class ReductionKind:
    """One way to combine values of a group.

    ``combine`` turns two arrays into one; it is a numpy ufunc for the dialect's kinds.  ``elementwise``: whether
    combining a part of the arrays gives the same part of the result, so that arrays may be cut into slices.
    """

    name: str
    combine: Callable[..., Any]
    elementwise: bool

    @property
    def is_average(self) -> bool:
        """Whether the sum is divided by the number of members at the end."""
        return self.name == "average"

    @property
    def shown(self) -> str:
        """The kind, or the callable's name: a text that is the same on all processes."""
        return self.name if self.elementwise else getattr(self.combine, "__name__", "callable")


KINDS = MappingProxyType(
    {
        name: ReductionKind(name, ufunc, True)
        for name, ufunc in (
            ("sum", np.add),
            ("max", np.maximum),
            ("min", np.minimum),
            ("product", np.multiply),
            ("average", np.add),
            ("bitwise_and", np.bitwise_and),
            ("bitwise_or", np.bitwise_or),
            ("bitwise_xor", np.bitwise_xor),
        )
    }
)

# The kinds that have a meaning for times: durations are added and compared, dates are compared.
_OF_TIMES = {"m": ("sum", "max", "min"), "M": ("max", "min")}


def as_reduction(reduction: object) -> ReductionKind:
    """The kind named by ``reduction``, or a ``generic`` one for a callable of two arrays.

    Local.  A callable must be associative; it is applied in group order and need not commute.

    >>> as_reduction("max").combine(2, 3)
    np.int64(3)
    """
    if isinstance(reduction, ReductionKind):
        return reduction
    if isinstance(reduction, str) and reduction in KINDS:
        return KINDS[reduction]
    if callable(reduction):
        return ReductionKind("generic", reduction, False)
    raise ReductionError(
        f"reduction is {reduction!r}; it must be one of {', '.join(KINDS)}, or a callable of two arrays"
    )


def result_dtype(kind: ReductionKind, dtype: np.dtype, requested: np.dtype | None) -> np.dtype:
    """The dtype in which ``kind`` reduces arrays of ``dtype``, which is also the dtype of the result.

    Local.  It is ``requested`` if given, else ``dtype`` itself, except that an average of integers or bool is float64.
    Raises DTypeError.

    >>> result_dtype(KINDS["average"], np.dtype("int32"), None)
    dtype('float64')
    """
    if kind.elementwise and dtype.kind in "mM":
        if not reduces(kind.name, dtype):
            known = ", ".join(_OF_TIMES[dtype.kind])
            raise DTypeError(f"reduction {kind.name!r} of dtype {dtype}; such times are reduced by {known}")
        if requested not in (None, dtype):
            raise DTypeError(f"dtype={requested} for values of dtype {dtype}; the result of times has their dtype")
        return dtype
    if not is_numeric(dtype):
        raise DTypeError(f"reduction {kind.name!r} of dtype {dtype}; reductions take numeric and bool dtypes")
    if requested is None:
        result = np.dtype("float64") if kind.is_average and dtype.kind in "biu" else dtype
    else:
        result = requested
        if not is_numeric(result):
            raise DTypeError(f"dtype={result} for reduction {kind.name!r}; reductions take numeric and bool dtypes")
        if dtype.kind == "c" and result.kind != "c":
            raise DTypeError(f"dtype={result} for values of dtype {dtype}; a conversion must not drop imaginary parts")
    if kind.is_average and result.kind in "biu":
        raise DTypeError(f"dtype={result} for reduction 'average'; an average needs a floating-point or complex dtype")
    if kind.name.startswith("bitwise") and result.kind not in "biu":
        raise DTypeError(f"reduction {kind.name!r} of dtype {result}; bitwise reductions take integers and bool")
    return result


def is_numeric(dtype: np.dtype) -> bool:
    """Whether ``dtype`` is bool, integer, floating-point or complex (extension floats such as bfloat16 included)."""
    if dtype.kind in "biufc":
        return True
    return dtype.kind == "V" and dtype.names is None and dtype.subdtype is None and dtype.type is not np.void


def reduces(name: str, dtype: np.dtype) -> bool:
    """Whether the kind ``name`` reduces arrays of ``dtype`` as numpy does: numbers and bools, and some kinds times.

    >>> reduces("max", np.dtype("M8[s]")), reduces("sum", np.dtype("M8[s]")), reduces("sum", np.dtype("m8[s]"))
    (True, False, True)
    """
    return is_numeric(dtype) or name in _OF_TIMES.get(dtype.kind, ())


def identity(kind: ReductionKind, dtype: np.dtype) -> np.generic:
    """The value e of ``dtype`` with ``combine(e, v) == v`` for every v.

    Local.  Raises ReductionError for kinds that have none.

    >>> identity(KINDS["min"], np.dtype("int8"))
    np.int8(127)
    """
    name = kind.name
    value: complex | np.generic | np.ndarray
    if name == "sum" and dtype.kind in "fc":
        value = -0.0  # 0.0 + -0.0 is 0.0: only the negative zero leaves every value as it is
    elif name in ("sum", "bitwise_or", "bitwise_xor"):
        value = 0
    elif name == "product":
        value = 1
    elif name == "bitwise_and":
        value = True if dtype.kind == "b" else np.invert(np.zeros((), dtype))[()]
    elif name in ("max", "min"):
        value = _extreme(dtype, lowest=name == "max")
    else:
        raise ReductionError(f"reduction {name!r} has no identity; a partial value needs one")
    return np.asarray(value).astype(dtype)[()]  # type: ignore[return-value]  # of 0 dimensions: a scalar


def _extreme(dtype: np.dtype, lowest: bool) -> complex | np.generic:
    """The lowest or the largest value of ``dtype``, infinities included; of times, NaT excluded."""
    if dtype.kind == "b":
        return not lowest
    if dtype.kind in "mM":
        bounds = np.iinfo(np.int64)
        return bounds.min + 1 if lowest else bounds.max  # the least integer is NaT
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if lowest else info.max
    infinite = -np.inf if lowest else np.inf
    if dtype.kind == "V" and not np.isinf(np.asarray(infinite).astype(dtype).astype(np.float64)):
        return _extreme_of_bytes(dtype, lowest)
    return complex(infinite, infinite) if dtype.kind == "c" else infinite


@cache
def _extreme_of_bytes(dtype: np.dtype, lowest: bool) -> np.generic:
    """The lowest or the largest value of an extension type of one byte that has no infinities."""
    with np.errstate(all="ignore"):
        values = np.arange(256, dtype=np.uint8).view(dtype)
        numbers = values.astype(np.float64)
        return values[np.nanargmin(numbers) if lowest else np.nanargmax(numbers)]
