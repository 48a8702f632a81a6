"""Bytes of elements that carry no value: between fields, and in long doubles.  Stored, they are 0."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

__all__ = ["has_padding", "with_clean_padding"]

_LONG = np.dtype(np.longdouble)
# The bytes of a long double that carry its value: 10 of 16 where it is the extended format of x87.
_LONG_BYTES = 10 if np.finfo(np.longdouble).nmant == 63 else _LONG.itemsize


@lru_cache(64)
def has_padding(dtype: np.dtype) -> bool:
    """Whether elements of ``dtype`` have bytes that carry no value.

    >>> has_padding(np.dtype("i2,f4")), has_padding(np.dtype("i2,f4", align=True))
    (False, True)
    """
    return _value_bytes(dtype) != dtype.itemsize


def with_clean_padding(cells: np.ndarray) -> np.ndarray:
    """The array itself, or a copy with 0 in bytes that carry no value.  Local."""
    if not has_padding(cells.dtype):
        return cells
    result = np.zeros(cells.shape, cells.dtype)
    result[...] = cells  # by fields, which leaves the bytes between them
    _clean_long_doubles(result)
    return result


def _clean_long_doubles(cells: np.ndarray) -> None:
    """Put 0 into the bytes of long doubles that carry no value, in place."""
    dtype = cells.dtype
    if dtype.fields is not None:
        for name in dtype.names or ():
            _clean_long_doubles(cells[name])
    elif dtype.kind in "fc" and has_padding(dtype):
        raw = np.ascontiguousarray(cells).view(np.uint8).reshape(-1, _LONG.itemsize)
        raw[:, _LONG_BYTES:] = 0
        if not np.shares_memory(raw, cells):
            raw_cells = np.ndarray((*cells.shape, dtype.itemsize), np.uint8, cells, 0, (*cells.strides, 1))
            raw_cells[...] = raw.reshape(raw_cells.shape)


def _value_bytes(dtype: np.dtype) -> int:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return int(np.prod(shape)) * _value_bytes(base)
    if dtype.fields is not None:
        return sum(_value_bytes(field[0]) for field in dtype.fields.values())
    if dtype.kind in "fc" and dtype.newbyteorder("=").type in (np.longdouble, np.clongdouble):
        return dtype.itemsize // _LONG.itemsize * _LONG_BYTES
    return dtype.itemsize
