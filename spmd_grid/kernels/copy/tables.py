"""Copy tables: boxes as rows of integers, which one compiled kernel copies for every dtype and rank.

A table is an int64 array with one row per box and ``4 + 3 * D`` columns, all offsets and strides in bytes::

    source offset | target offset | source base | target base | shape[D] | source strides[D] | target strides[D]

D is the largest number of dimensions that any row keeps after coalescing; rows with fewer are padded in front with
extents of 1.  The last dimension is the contiguous run: its extent is in bytes and both its strides are 1.  The two
before it are the plane that the kernel walks innermost.  The base columns are indices into arrays of base addresses;
``copy_boxes``, which has one base per side, does not read them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid.errors import DTypeError, OutputError

__all__ = [
    "ARRAY_WORDS",
    "FIXED_COLUMNS",
    "BoxRow",
    "Flat",
    "address_of",
    "box_row",
    "bytes_at",
    "build_table",
    "flatten",
    "table_bytes",
]

FIXED_COLUMNS = 4  # the columns before shape[D]


class BoxRow(NamedTuple):
    """One coalesced box copy; offsets and strides in bytes.

    ``dims`` has (extent, source stride, target stride), outermost first; the last is the contiguous run (bytes, 1, 1).
    """

    source_offset: int
    target_offset: int
    source_base: int
    target_base: int
    dims: tuple[tuple[int, int, int], ...]


class Flat(NamedTuple):
    """Where an array lies: the address of its first element, its strides and its item size, in bytes."""

    address: int
    strides: tuple[int, ...]
    itemsize: int


def box_row(
    shape: Sequence[int],
    itemsize: int,
    source_strides: Sequence[int],
    source_offset: int,
    target_strides: Sequence[int],
    target_offset: int,
    source_base: int = 0,
    target_base: int = 0,
) -> BoxRow | None:
    """The row that copies a box of ``shape`` items between two strided arrays, or None where the box is empty.

    Local.  ``itemsize``, strides and offsets in bytes; an offset is that of the box's first item.  Source strides may
    be negative or 0, target strides negative.  Dimensions that are contiguous on both sides become one (as numpy's
    nditer coalesces axes); the loops run in the order of the target's memory, except that the source's fastest
    dimension comes second to last, where the kernel walks the two in tiles.

    >>> box_row((2, 3), 8, (80, 8), 16, (24, 8), 0)
    BoxRow(source_offset=16, target_offset=0, source_base=0, target_base=0, dims=((2, 80, 24), (24, 1, 1)))
    """
    if itemsize <= 0 or min(shape, default=1) <= 0:
        return None
    loops = []
    for extent, source, target in zip(shape, source_strides, target_strides, strict=True):
        if extent == 1:
            continue
        if target < 0:  # walk the target upwards
            source_offset += (extent - 1) * source
            target_offset += (extent - 1) * target
            source, target = -source, -target
        elif target == 0:
            raise OutputError(f"box copy to a target stride of 0 over extent {extent}; each byte is written once only")
        loops.append((extent, source, target))
    loops.sort(key=_by_target)
    dims = [(itemsize, 1, 1)]  # innermost first, from here on
    for extent, source, target in loops:
        inner, inner_source, inner_target = dims[-1]
        if source == inner * inner_source and target == inner * inner_target:
            dims[-1] = (inner * extent, inner_source, inner_target)
        else:
            dims.append((extent, source, target))
    if len(dims) > 3:
        fastest = min(range(1, len(dims)), key=lambda d: abs(dims[d][1]))
        if fastest > 2 and dims[fastest][1] and abs(dims[1][1]) > abs(dims[fastest][1]):
            dims.insert(2, dims.pop(fastest))
    return BoxRow(source_offset, target_offset, source_base, target_base, tuple(reversed(dims)))


def build_table(rows: Iterable[BoxRow | None]) -> np.ndarray:
    """The copy table of ``rows`` (see the module's head); None, the row of an empty box, is left out.

    Local.
    """
    rows = [row for row in rows if row is not None]
    ndim = max((len(row.dims) for row in rows), default=1)
    columns = []
    for *fixed, dims in rows:
        padded = ((1, 0, 0),) * (ndim - len(dims)) + dims
        columns.append(fixed + [part for side in zip(*padded, strict=True) for part in side])
    return np.array(columns, np.int64).reshape(len(rows), FIXED_COLUMNS + 3 * ndim)


def table_bytes(table: np.ndarray) -> int:
    """How many bytes one run of ``table`` copies.  Local."""
    ndim = (table.shape[1] - FIXED_COLUMNS) // 3
    return int(table[:, FIXED_COLUMNS : FIXED_COLUMNS + ndim].prod(axis=1).sum())


def _by_target(dim: tuple[int, int, int]) -> int:
    return dim[2]


# A numpy array object begins with its data pointer, right after CPython's object header (PyArrayObject_fields, part of
# numpy's stable ABI).  Reading it takes 0.1 us; ``x.ctypes.data`` takes 0.8.
_HEADER = object.__basicsize__
_word_at = ctypes.c_size_t.from_address
_probe = np.zeros((2, 2))[1:, 1:]
_probe.flags.writeable = False

if _word_at(id(_probe) + _HEADER).value == _probe.ctypes.data:

    def address_of(x: np.ndarray) -> int:
        """The address of ``x``'s first element.  Local."""
        return _word_at(id(x) + _HEADER).value

else:

    def address_of(x: np.ndarray) -> int:
        """The address of ``x``'s first element.  Local."""
        return x.ctypes.data


def _array_words() -> int:
    """Where in an array object the struct of numpy's headers begins; 0 where it is not what they say."""
    probe = np.zeros((2, 3), ">f4")[:, 1:]
    probe.flags.writeable = False
    words = np.frombuffer((ctypes.c_int64 * 7).from_address(id(probe) + _HEADER), np.int64)
    data, ndim, shape, strides, _, dtype, flags = words.tolist()
    sides = [(ctypes.c_int64 * 2).from_address(address)[:] for address in (shape, strides)] if ndim & 0xFF == 2 else []
    known = (
        data == probe.ctypes.data
        and sides == [[2, 2], [12, 4]]
        and dtype == id(probe.dtype)
        and not flags & 0x0400
        and ctypes.c_int.from_address(id(np.zeros(1)) + _HEADER + 48).value & 0x0400
    )
    return _HEADER if known else 0


# The struct: data, number of dimensions (32 bits), shape, strides, base, dtype, flags (32 bits); a word each.
ARRAY_WORDS = _array_words()


def bytes_at(address: int, n_bytes: int) -> np.ndarray:
    """The memory at ``address`` as flat uint8; the caller keeps it alive.  Local."""
    return np.frombuffer((ctypes.c_uint8 * n_bytes).from_address(int(address)), np.uint8, n_bytes)


def flatten(x: np.ndarray) -> Flat:
    """Address, strides and item size of ``x``; the caller keeps ``x`` alive for as long as it uses the address.

    Local.  Arrays that hold Python objects are refused: copying their bytes would break reference counts.
    """
    if x.dtype.hasobject:
        raise DTypeError(f"bytes of an array of dtype {x.dtype}; only dtypes without Python objects can be moved")
    return Flat(address_of(x), x.strides, x.itemsize)
