"""The arrays that one process passes to a resharding, checked against its layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from spmd_grid.errors import DTypeError, OutputError, ShapeError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.dtype_tokens import dtype_of_token, token_of_dtype
from spmd_grid.grid.layout import Layout
from spmd_grid.kernels import address_of
from spmd_grid.ops.calls.arguments import as_array, check_output
from spmd_grid.typing import Shape

__all__ = ["ArrayTypes", "DTypes", "LocalArrays", "LocalResult", "output_arrays", "source_arrays"]

# A local array or a ShardedArray, a sequence of several that share one exchange, or None on a process without a part.
LocalArrays: TypeAlias = Any
# As `LocalArrays`; a checker cannot tell which of these it is, since the plan and the process decide.
LocalResult: TypeAlias = Any
DTypes: TypeAlias = tuple[np.dtype, ...]


def _as_list(arrays: LocalArrays) -> Sequence[Any]:
    """One array as a list of one; a list as it is."""
    return arrays if isinstance(arrays, list | tuple) else [arrays]


def source_arrays(local: LocalArrays, layout: Layout, shape: Shape, dtypes: DTypes | None) -> list[np.ndarray]:
    """This process's arrays in the source's ``layout``, of ``shape`` and, if known, ``dtypes``.

    Local.  Raises ShapeError, DTypeError.
    """
    arrays = [as_array("local", _local_of("local", each, layout)) for each in _as_list(local)]
    if not arrays:
        raise ShapeError("local is an empty list; it must have at least one array")
    for array in arrays:
        if array.shape != shape:
            raise ShapeError(f"local has shape {array.shape}; {layout} makes it {shape}, halos included")
    _check_dtypes("local", arrays, dtypes)
    return arrays


def output_arrays(
    out: LocalArrays, local: LocalArrays, layout: Layout, shape: Shape, dtypes: DTypes | None, has_source: bool
) -> list[np.ndarray]:
    """The arrays that the results go to, in the target's ``layout``.

    Local.  ``dtypes``: None if a part of the source on this process tells them by ``local``.  Raises ShapeError,
    DTypeError, OutputError.
    """
    outs = [_local_of("out", each, layout) for each in _as_list(out)]
    given = [getattr(each, "local", each) for each in _as_list(local)]
    for i, each in enumerate(outs):
        check_output("out", each, None)
        if each.shape != shape:
            raise ShapeError(f"out has shape {each.shape}; {layout} makes it {shape}, halos included")
        if 0 in each.strides and each.nbytes and any(s == 0 and n > 1 for s, n in zip(each.strides, each.shape)):
            raise OutputError("out has a stride of 0; each of its cells must have memory of its own")
        for j, array in enumerate(given):
            if isinstance(array, np.ndarray) and not (i == j and _is_same_memory(array, each)):
                check_output("out", each, array)
        for other in outs[:i]:
            check_output("out", each, other)
    if has_source and isinstance(out, list | tuple) != isinstance(local, list | tuple):
        raise ShapeError(f"out is {type(out).__name__}, local {type(local).__name__}; both must be lists, or neither")
    if dtypes is None and has_source:
        dtypes = tuple([np.asarray(array).dtype for array in given])
    _check_dtypes("out", outs, dtypes)
    return outs


def _is_same_memory(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are the same cells in the same order."""
    return address_of(a) == address_of(b) and a.shape == b.shape and a.strides == b.strides


def _local_of(what: str, array: Any, layout: Layout) -> Any:
    """The local array of a `ShardedArray`, which must have ``layout``; anything else as it is."""
    found = getattr(array, "layout", None)
    if not isinstance(found, Layout):
        return array
    if found != layout:
        raise ShapeError(f"{what} has layout {found}; it must be {layout}")
    return array.local


def _check_dtypes(what: str, arrays: Sequence[np.ndarray], dtypes: DTypes | None) -> None:
    if dtypes is None:
        return
    if len(arrays) != len(dtypes):
        raise ShapeError(f"{what} has {len(arrays)} arrays; the plan is for {len(dtypes)}")
    for array, dtype in zip(arrays, dtypes, strict=True):
        if array.dtype != dtype:
            raise DTypeError(f"{what} has dtype {array.dtype}; it must be {dtype}")


class ArrayTypes(NamedTuple):
    """The dtypes of one process's arrays, and whether they are passed as a list (``several``)."""

    several: bool
    dtypes: tuple[np.dtype, ...]

    @classmethod
    def of_facts(cls, facts: Facts) -> ArrayTypes:
        """The types that a member states in its header."""
        several, *tokens = facts.out_shape or (False,)
        return cls(bool(several), tuple(map(dtype_of_token, tokens)))

    def facts(self) -> Facts:
        """The types as they go into a header; in few bytes, so that they fit."""
        tokens = map(_hashable, map(token_of_dtype, self.dtypes))
        return Facts(None, None, (self.several, *tokens))  # a header carries any tokens

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.dtypes))
        return f"a list of {shown}" if self.several else shown


def _hashable(token: Any) -> Any:
    """The token of a dtype with tuples in place of lists."""
    return tuple(map(_hashable, token)) if isinstance(token, list) else token
