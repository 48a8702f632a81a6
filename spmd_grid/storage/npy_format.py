"""Headers of ``.npy`` files, written as ``numpy.save`` writes them, and parsed without trust: nothing is unpickled.

The format is that of numpy enhancement proposal 1, https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from spmd_grid.errors import DamagedError, DTypeError
from spmd_grid.python_text import literal_of
from spmd_grid.storage.paths import File
from spmd_grid.typing import Shape

__all__ = ["NpyHeader", "header_of", "read_header", "stored_dtype"]

_MAGIC = b"\x93NUMPY"
_ALIGNMENT = 64
_GROWTH = 21  # spaces that numpy leaves for the first extent to grow
_LONGEST = 1 << 20  # bytes of a header that is read
_MOST_DIMS = 64  # that numpy's arrays may have
_MOST_BYTES = 1 << 63


@dataclass(frozen=True)
class NpyHeader:
    """The header of a file: the dtype and shape of its array, whether it is in Fortran's order, where it begins."""

    dtype: np.dtype
    shape: Shape
    fortran_order: bool
    offset: int

    @property
    def n_bytes(self) -> int:
        """Number of bytes of the array."""
        return prod(self.shape) * self.dtype.itemsize


def stored_dtype(op: str, dtype: np.dtype) -> np.dtype:
    """The dtype by which a ``.npy`` file describes elements of ``dtype``: of equal bytes, and known to plain numpy.

    Local.  Elements that plain numpy does not know, such as bfloat16, are stored as raw bytes.  Raises `DTypeError`
    where the format has no words for a dtype: Python objects, and fields that overlap or are out of order.
    """
    stored = _plain(dtype)
    try:
        if stored.hasobject:
            raise ValueError("it holds Python objects")
        again = np.lib.format.descr_to_dtype(_descr(stored))
        if again.itemsize != stored.itemsize or again.fields != stored.fields or again.base != stored.base:
            raise ValueError("its fields overlap or are out of order")
    except (ValueError, TypeError) as error:
        raise DTypeError(f"{op}: arrays of dtype {dtype} cannot be stored as .npy: {error}") from None
    return stored


def header_of(dtype: np.dtype, shape: Shape) -> bytes:
    """The header of a file with an array of ``shape`` in C order: the bytes that ``numpy.save`` writes.

    >>> header_of(np.dtype("<f8"), (2, 3))[8:70]
    b"v\\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), } "
    """
    text = f"{{'descr': {_descr(dtype)!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    if shape:
        text += " " * (_GROWTH - len(repr(shape[0])))
    is_latin = all(ord(character) < 256 for character in text)
    encoded = text.encode("latin1" if is_latin else "utf8")
    version, width = (1, 2) if is_latin else (3, 4)
    padding = _padding(width, len(encoded))
    if is_latin and len(encoded) + 1 + padding >= 1 << 16:
        version, width = 2, 4
        padding = _padding(width, len(encoded))
    length = len(encoded) + 1 + padding
    return _MAGIC + bytes([version, 0]) + length.to_bytes(width, "little") + encoded + b" " * padding + b"\n"


def read_header(op: str, file: File) -> NpyHeader:
    """The header of an open file, whose size must be that of the header and the array.

    Local.  Raises `DamagedError`, which says what is wrong, and `StorageError`.
    """
    start = file.read_start(12)
    if len(start) < 10 or start[:6] != _MAGIC or start[6] not in (1, 2, 3) or (start[6] > 1 and len(start) < 12):
        raise DamagedError(f"{op}: {file.path} is not a .npy file: it begins with {start!r}")
    width = 2 if start[6] == 1 else 4
    offset = 8 + width + int.from_bytes(start[8 : 8 + width], "little")
    if offset > _LONGEST:
        raise DamagedError(f"{op}: {file.path} says that its header has {offset} bytes; at most {_LONGEST} are read")
    text = file.read_start(offset)[8 + width :]
    if len(text) != offset - 8 - width:
        raise DamagedError(f"{op}: {file.path} ends at byte {8 + width + len(text)}, within its header of {offset}")
    header = _parse(op, file.path, text.decode("utf8" if start[6] == 3 else "latin1", "replace"), offset)
    found = file.size()
    if found != offset + header.n_bytes:
        raise DamagedError(
            f"{op}: {file.path} has {found} bytes; an array of shape {header.shape} and dtype {header.dtype} after a"
            f" header of {offset} bytes makes it {offset + header.n_bytes}"
        )
    return header


def _parse(op: str, path: Path, text: str, offset: int) -> NpyHeader:
    try:
        found: Any = literal_of(text.strip())
        if not isinstance(found, dict) or set(found) != {"descr", "fortran_order", "shape"}:
            raise ValueError("it must have descr, fortran_order and shape")
        shape, order = found["shape"], found["fortran_order"]
        if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape) or len(shape) > _MOST_DIMS:
            raise ValueError(f"shape is {shape!r}; it must be a tuple of extents, integers from 0")
        if not isinstance(order, bool):
            raise ValueError(f"fortran_order is {order!r}; it must be True or False")
        dtype = np.lib.format.descr_to_dtype(found["descr"])
        if dtype.hasobject:
            raise ValueError(f"dtype {dtype} holds Python objects, which are not loaded")
        if prod(max(n, 1) for n in shape) * max(dtype.itemsize, 1) >= _MOST_BYTES:
            raise ValueError(f"an array of shape {shape} and dtype {dtype} has 2**63 bytes or more")
    except (ValueError, TypeError, SyntaxError, LookupError, MemoryError, RecursionError, ArithmeticError) as error:
        raise DamagedError(f"{op}: {path} has a header that is not one of a .npy file: {error}") from None
    return NpyHeader(dtype, shape, order, offset)


def _padding(width: int, n_bytes: int) -> int:
    """The spaces after a description of ``n_bytes`` whose length takes ``width`` bytes; its end is a line's."""
    return _ALIGNMENT - (len(_MAGIC) + 2 + width + n_bytes + 1) % _ALIGNMENT


def _descr(dtype: np.dtype) -> Any:
    return np.lib.format.dtype_to_descr(dtype)


def _plain(dtype: np.dtype) -> np.dtype:
    """``dtype`` with raw bytes in place of elements that plain numpy does not know."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((_plain(base), shape))
    if dtype.names is not None and dtype.fields is not None:
        fields = [dtype.fields[name] for name in dtype.names]
        return np.dtype(
            {
                "names": list(dtype.names),
                "formats": [_plain(field[0]) for field in fields],
                "offsets": [field[1] for field in fields],
                "itemsize": dtype.itemsize,
            }
        )
    return dtype if dtype.type.__module__ == "numpy" else np.dtype((np.void, dtype.itemsize))
