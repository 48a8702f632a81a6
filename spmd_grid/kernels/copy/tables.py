"""Copy tables: boxes as rows of integers, which one compiled kernel copies for every dtype and rank.

A table is an int64 array with one row per box and ``4 + 3 * D`` columns, all offsets and strides in bytes::

    source offset | target offset | source base | target base | shape[D] | source strides[D] | target strides[D]

D is the largest number of dimensions that any row keeps after coalescing; rows with fewer are padded in front with
extents of 1.  The last dimension is the contiguous run: its extent is in bytes and both its strides are 1.  The two
before it are the plane that the kernel walks innermost.  The base columns are indices into arrays of base addresses;
``copy_boxes``, which has one base per side, does not read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid.errors import OutputError

__all__ = [
    "ALWAYS",
    "BY_LINES",
    "BY_SIZE",
    "FIXED_COLUMNS",
    "NEVER",
    "READ_BYTES",
    "READ_FROM",
    "READ_HERE",
    "READ_HERE_RUNS",
    "READ_INTO",
    "READ_PROCESS",
    "READ_SOURCE",
    "READ_THERE",
    "READ_THERE_RUNS",
    "READ_WORDS",
    "STREAM_FROM",
    "BoxRow",
    "box_row",
    "build_table",
    "streams_for",
    "table_bytes",
]

FIXED_COLUMNS = 4  # the columns before shape[D]

# Whether a call streams past the caches: if it copies as much as they hold, or else for a reason of the caller's.  With
# BY_LINES it does not, and copies long runs, which another processor has written, line by line.
BY_SIZE, ALWAYS, NEVER, BY_LINES = 0, 1, 2, 3
STREAM_FROM = 8 << 20  # bytes that a call copies: from here on they would not stay in the caches anyway
_LEAST_RESULT = 16 << 20  # bytes: smaller ones stay in the cache that all cores share

# A row of a table of the system's copies (see system_copies.py): the process that is read; the runs of this process and
# of that one, each an address of words and a number; the bytes that they copy ...
READ_PROCESS, READ_HERE, READ_HERE_RUNS, READ_THERE, READ_THERE_RUNS, READ_BYTES = range(6)
READ_SOURCE = 6  # ... which of the arrays is read ...
READ_INTO, READ_FROM = 7, 8  # ... and what has been added to the addresses of the runs here and there
READ_WORDS = 9


class BoxRow(NamedTuple):
    """One coalesced box copy; offsets and strides in bytes.

    ``dims`` has (extent, source stride, target stride), outermost first; the last is the contiguous run (bytes, 1, 1).
    """

    source_offset: int
    target_offset: int
    source_base: int
    target_base: int
    dims: tuple[tuple[int, int, int], ...]


def streams_for(n_bytes: int, least: int = _LEAST_RESULT) -> int:
    """Whether copies stream into a result of ``n_bytes``, of which a call may copy a part.  Local.

    ``least``: the size from which on they do; for results beside sources of the same size it is STREAM_FROM.
    """
    return ALWAYS if n_bytes >= least else NEVER


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

    Local.  ``itemsize``, strides and offsets are in bytes; an offset is that of the box's first item.  Source strides
    may be negative or 0, target strides negative.  Dimensions that are contiguous on both sides become one (as numpy's
    nditer coalesces axes).  The loops run in the order of the target's memory, except that the source's fastest
    dimension is moved to second to last, where the kernel walks the two in tiles.

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
    """The copy table of ``rows`` (described at the top of this module); None, the row of an empty box, is skipped.

    Local.
    """
    kept = [row for row in rows if row is not None]
    ndim = max((len(row.dims) for row in kept), default=1)
    columns = []
    for *fixed, dims in kept:
        padded = ((1, 0, 0),) * (ndim - len(dims)) + dims
        columns.append(fixed + [part for side in zip(*padded, strict=True) for part in side])
    return np.array(columns, np.int64).reshape(len(kept), FIXED_COLUMNS + 3 * ndim)


def table_bytes(table: np.ndarray) -> int:
    """Number of bytes that one run of ``table`` copies.  Local."""
    ndim = (table.shape[1] - FIXED_COLUMNS) // 3
    return int(table[:, FIXED_COLUMNS : FIXED_COLUMNS + ndim].prod(axis=1).sum())


def _by_target(dim: tuple[int, int, int]) -> int:
    return dim[2]
