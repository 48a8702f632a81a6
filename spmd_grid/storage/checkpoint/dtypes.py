"""Dtypes as a manifest describes them: the program's own, where a ``.npy`` file knows raw bytes only."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import numpy as np

from spmd_grid.errors import DamagedError, DTypeError

__all__ = ["dtype_from_json", "dtype_to_json"]

_EXTENSIONS = "ml_dtypes"  # the package of bfloat16 and other short floats
_SHORT_NUMBERS = frozenset(
    "bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz"
    " float8_e8m0fnu float6_e2m3fn float6_e3m2fn float4_e2m1fn int1 int2 int4 uint1 uint2 uint4".split()
)
_PLAIN = re.compile(r"[<>|=][biufcSUVMm][0-9]{1,10}(\[[0-9]{0,9}[A-Za-z]{1,7}\])?")  # numpy's, of a fixed size
_DEEPEST = 32  # structures within structures


def dtype_to_json(op: str, dtype: np.dtype, depth: int = 0) -> Any:
    """A description that `dtype_from_json` understands.  Local.

    Raises DTypeError for dtypes of other packages, and for structures nested too deep.
    """
    if depth > _DEEPEST:
        raise DTypeError(f"{op}: an array's dtype is nested more than {_DEEPEST} deep")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"of": dtype_to_json(op, base, depth + 1), "shape": list(shape)}
    if dtype.fields is not None:
        fields = [(name, dtype.fields[name]) for name in dtype.names or ()]
        return {
            "fields": [[name, dtype_to_json(op, of, depth + 1), at] for name, (of, at, *_) in fields],
            "itemsize": dtype.itemsize,
        }
    module = dtype.type.__module__
    if module == "numpy" and not dtype.hasobject:
        return dtype.str
    if module == _EXTENSIONS:
        return {"extension": dtype.name}
    raise DTypeError(
        f"{op}: arrays of dtype {dtype} cannot be stored: its elements are neither numpy's of a fixed size nor those of"
        f" {_EXTENSIONS}"
    )


def dtype_from_json(op: str, description: Any) -> np.dtype:
    """The dtype of a description, which is not trusted.  Local.  Raises DamagedError."""
    try:
        found = _parse(description, 0)
        if found.hasobject:
            raise ValueError("it holds Python objects, which are not loaded")
        return found
    except ImportError as error:
        raise DamagedError(f"{op}: dtype {description!r} needs the package {_EXTENSIONS}: {error}") from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError) as error:
        raise DamagedError(f"{op}: {str(description)[:200]!r} does not describe a dtype: {error}") from None


def _parse(description: Any, depth: int) -> np.dtype:
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} deep")
    if isinstance(description, str):
        if not _PLAIN.fullmatch(description):
            raise ValueError("it holds Python objects, which are not loaded, or is no plain dtype of numpy")
        found = np.dtype(description)
        if found.fields is not None or found.subdtype is not None or found.str != description:
            raise ValueError("it is not one plain dtype")
        return found
    if not isinstance(description, dict):
        raise ValueError("it is neither a name nor a description")
    if set(description) == {"extension"}:
        name = description["extension"]
        if name not in _SHORT_NUMBERS:
            raise ValueError(f"{_EXTENSIONS} has no such dtype")
        return np.dtype(getattr(import_module(_EXTENSIONS), name))
    if set(description) == {"of", "shape"}:
        return np.dtype((_parse(description["of"], depth + 1), tuple(description["shape"])))
    fields = [(name, _parse(of, depth + 1), at) for name, of, at in description["fields"]]
    names, formats, offsets = zip(*fields) if fields else ((), (), ())
    return np.dtype(
        {
            "names": list(names),
            "formats": list(formats),
            "offsets": list(offsets),
            "itemsize": description["itemsize"],
        }
    )
