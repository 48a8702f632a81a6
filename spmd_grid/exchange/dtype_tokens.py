"""Dtypes as members tell them to one another: short texts, from which nothing but a dtype can be made.

A plain dtype is its numpy name (``"<f8"``), a subarray ``[base, [extents]]``, a dtype of ml_dtypes ``[name]``, and a
structure ``[itemsize, aligned, [name, dtype, offset], ...]``, with the title of a field last where it has one.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError

__all__ = ["dtype_of_token", "token_of_dtype"]

_EXTENSIONS = "ml_dtypes"  # the package of bfloat16 and other short floats
_MOST_KNOWN = 256
_tokens: dict[np.dtype, Any] = {}


def token_of_dtype(dtype: np.dtype) -> Any:
    """The token of a dtype, of strings, integers and lists.  Local.  Raises DTypeError for dtypes of other packages.

    >>> token_of_dtype(np.dtype("f8")), token_of_dtype(np.dtype([("a", "i4"), ("b", "f8", (2,))]))
    ('<f8', [20, 0, ['a', '<i4', 0], ['b', ['<f8', [2]], 4]])
    """
    found = _tokens.get(dtype)
    if found is None:
        found = _token(dtype)
        if len(_tokens) >= _MOST_KNOWN:
            _tokens.clear()
        _tokens[dtype] = found
    return found


def dtype_of_token(token: Any) -> np.dtype:
    """The dtype that has this token, which another process has sent.  Local.  Raises DTypeError."""
    try:
        found = _dtype(token)
        if found.hasobject:
            raise ValueError("it holds Python objects")
        return found
    except (ValueError, TypeError, KeyError, AttributeError, ImportError, IndexError, SyntaxError) as error:
        raise DTypeError(f"another process has sent {str(token)[:200]!r}, which is no dtype here: {error}") from None


def _token(dtype: np.dtype) -> Any:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [_token(base), list(shape)]
    if dtype.fields is not None:
        fields = [(name, *dtype.fields[name]) for name in dtype.names or ()]
        listed = [[name, _token(of), at, *title] for name, of, at, *title in fields]
        return [dtype.itemsize, int(dtype.isalignedstruct), *listed]
    module = dtype.type.__module__
    if module == _EXTENSIONS:
        return [dtype.name]
    if module == "numpy" and not dtype.hasobject:
        return dtype.str
    raise DTypeError(
        f"dtype {dtype} cannot be told to other processes: its elements are neither of numpy, with a fixed size, nor of"
        f" {_EXTENSIONS}"
    )


def _dtype(token: Any) -> np.dtype:
    if isinstance(token, str):
        found = np.dtype(token)
        if found.str != token:
            raise ValueError("it is not one plain dtype")
        return found
    if len(token) == 1:
        module = import_module(_EXTENSIONS)
        if token[0] not in module.__all__:
            raise ValueError(f"{_EXTENSIONS} has no such dtype")
        return np.dtype(getattr(module, token[0]))
    itemsize, is_aligned, *fields = token
    if not isinstance(itemsize, int):
        return np.dtype((_dtype(itemsize), tuple(is_aligned)))
    words: Any = {
        "names": [name for name, *_ in fields],
        "formats": [_dtype(of) for _, of, *_ in fields],
        "offsets": [at for _, _, at, *_ in fields],
        "itemsize": itemsize,
        "aligned": bool(is_aligned),
    }
    if any(len(each) > 3 for each in fields):
        words["titles"] = [each[3] if len(each) > 3 else None for each in fields]
    return np.dtype(words)
