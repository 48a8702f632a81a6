"""Compiled box copies: one kernel for every dtype and number of dimensions, since it sees only bytes and strides.

A box is copied plane by plane, in a way that depends on its runs.  Long runs are copied by libc's memcpy.  A short one
is moved as words of W bytes, the last of which may overlap the one before it (the technique of glibc's memcpy for small
sizes).  Planes whose two sides run along different dimensions are walked in tiles of one cache line each way; if both
sides are packed words, tiles are transposed in registers (see ``tiles``).  Data larger than the caches is streamed past
them (see ``streams``), decided once for all that a call copies.  Source and target must not overlap.
"""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import copy_at, load
from spmd_grid.kernels.compiled import by_address, inner, pasted
from spmd_grid.kernels.copy.planes import pairs, plane_of, words
from spmd_grid.kernels.copy.streams import LINES_RUN, STREAM_PLANE, STREAM_RUN, copy_lines, line_rows, stream_rows
from spmd_grid.kernels.copy.tables import ALWAYS, BY_LINES, BY_SIZE, FIXED_COLUMNS, NEVER, STREAM_FROM
from spmd_grid.kernels.copy.tiles import turn_plane
from spmd_grid.kernels.copy.vectors import drain, move
from spmd_grid.kernels.python_calls import on_integers

MEMCPY_FROM = 256  # bytes: shorter runs are faster without a call of memcpy
MEMCPY_MOST = 1 << 18  # bytes: of larger ones libraries fetch every line that they overwrite, of smaller ones not
# A memcpy of at least CLOSE_FROM bytes takes 12 times as long on some processors if the target is 1 to 15 bytes further
# in its page than the source: their instruction takes the two for overlapping.  So it is with arrays that begin with a
# page and move by a cell.
CLOSE_FROM, CLOSE, PAGE = 1 << 13, 16, 4096
EDGE = 8  # runs, of a tile each way
PATTERN = 4096  # bytes to which a run that is repeated is doubled


_words_1, _words_2, _words_4, _words_8, _words_16 = map(words, (1, 2, 4, 8, 16))
_pairs_2, _pairs_4, _pairs_8, _pairs_16, _pairs_32, _pairs_64 = map(pairs, (2, 4, 8, 16, 32, 64))


@plane_of
@inner
def _chunks(source: int, target: int, run: int) -> None:
    """Copy a run of more than 64 bytes: words of 64 bytes, the last of which may overlap."""
    for at in range(0, run - 64, 64):
        move(source + at, target + at, 64)
    move(source + run - 64, target + run - 64, 64)


@plane_of
@inner
def _rows(source: int, target: int, run: int) -> None:
    """Copy a long run: by a memcpy, or several for a very long one; by lines where memcpy may be slow."""
    if run >= CLOSE_FROM and 0 < (target - source) % PAGE < CLOSE:
        copy_lines(source, target, run)
        return
    while run > MEMCPY_MOST:
        move(source, target, MEMCPY_MOST)
        source, target, run = source + MEMCPY_MOST, target + MEMCPY_MOST, run - MEMCPY_MOST
    move(source, target, run)


@pasted
def _runs(source: int, target: int, run: int, n1: int, s1: int, t1: int, n0: int, s0: int, t0: int) -> None:
    """Copy n1 x n0 runs of ``run`` bytes, one after the other."""
    if run >= MEMCPY_FROM:
        _rows(source, target, run, n1, s1, t1, n0, s0, t0)
    elif run == 8:
        _words_8(source, target, run, n1, s1, t1, n0, s0, t0)
    elif run == 4:
        _words_4(source, target, run, n1, s1, t1, n0, s0, t0)
    elif run == 16:
        _words_16(source, target, run, n1, s1, t1, n0, s0, t0)
    elif run == 2:
        _words_2(source, target, run, n1, s1, t1, n0, s0, t0)
    elif run == 1:
        _words_1(source, target, run, n1, s1, t1, n0, s0, t0)
    elif run > 128:
        _chunks(source, target, run, n1, s1, t1, n0, s0, t0)
    elif run > 64:
        _pairs_64(source, target, run, n1, s1, t1, n0, s0, t0)
    elif run > 32:
        _pairs_32(source, target, run, n1, s1, t1, n0, s0, t0)
    elif run > 16:
        _pairs_16(source, target, run, n1, s1, t1, n0, s0, t0)
    elif run > 8:
        _pairs_8(source, target, run, n1, s1, t1, n0, s0, t0)
    elif run > 4:
        _pairs_4(source, target, run, n1, s1, t1, n0, s0, t0)
    else:
        _pairs_2(source, target, run, n1, s1, t1, n0, s0, t0)


@inner
def _repeated(source: int, target: int, run: int, n1: int, s1: int, t1: int, n0: int) -> None:
    """Copy each run of a plane n0 times in a row: the copy is doubled, then repeated."""
    size = n0 * run
    for i1 in range(n1):
        t = target + i1 * t1
        move(source + i1 * s1, t, run)
        done = run
        while done < size:
            step = min(done, max(PATTERN // run * run, run), size - done)
            move(t, t + done, step)
            done += step


@inner
def _plane(source: int, target: int, run: int, n1: int, s1: int, t1: int, n0: int, s0: int, t0: int, how: int) -> None:
    """Copy n1 x n0 runs of ``run`` bytes; ``how``: ALWAYS, NEVER or BY_LINES."""
    across, streamed = 0 < abs(s1) < abs(s0) and run < MEMCPY_FROM, how == ALWAYS
    if streamed and run >= STREAM_RUN:
        stream_rows(source, target, run, n1, s1, t1, n0, s0, t0)
    elif how == BY_LINES and run >= LINES_RUN:
        line_rows(source, target, run, n1, s1, t1, n0, s0, t0)
    elif s0 == 0 and t0 == run and n0 > EDGE:
        _repeated(source, target, run, n1, s1, t1, n0)
    elif not (across and s1 == run == t0 and turn_plane(source, target, run, n1, t1, n0, s0, streamed)):
        edge1, edge0 = (EDGE, EDGE) if across else (n1, n0)
        lo0 = 0
        while lo0 < n0:
            lo1 = 0
            while lo1 < n1:
                s, t = source + lo1 * s1 + lo0 * s0, target + lo1 * t1 + lo0 * t0
                _runs(s, t, run, min(edge1, n1 - lo1), s1, t1, min(edge0, n0 - lo0), s0, t0)
                lo1 += edge1
            lo0 += edge0


@inner
def _is_large(table: int, columns: int, first: int, last: int) -> bool:
    """Whether the rows copy more bytes than the caches hold."""
    total = 0
    for row in range(first, last):
        size = 1
        for column in range(FIXED_COLUMNS, FIXED_COLUMNS + (columns - FIXED_COLUMNS) // 3):
            size *= load(table + 8 * columns * row, column)
        total += size
        if total >= STREAM_FROM:
            return True
    return False


@by_address("int64(int64, int64, int64, int64, int64, int64, int64)")
def copy_rows(table: int, columns: int, first: int, last: int, source_base: int, target_base: int, streams: int) -> int:
    """Copy the boxes of rows ``first`` to ``last`` (not included) of the table at an address; the bases are addresses.

    ``streams``: ALWAYS or NEVER, to stream past the caches or not whatever the size; BY_SIZE streams what is larger
    than they are; BY_LINES does not stream, and copies long runs line by line.
    Other kernels call it by its address, so that it is compiled only once, which takes seconds.  A process that sees a
    release store which follows it sees all that was copied.
    """
    ndim = (columns - FIXED_COLUMNS) // 3
    asked, large = streams != BY_SIZE, streams == ALWAYS
    for i in range(first, last):
        row = table + 8 * columns * i
        source, target = source_base + load(row, 0), target_base + load(row, 1)
        shape, s, t = row + 8 * FIXED_COLUMNS, row + 8 * (FIXED_COLUMNS + ndim), row + 8 * (FIXED_COLUMNS + 2 * ndim)
        run = load(shape, ndim - 1)
        n1, s1, t1, n0, s0, t0 = 1, 0, 0, 1, 0, 0
        if ndim > 1:
            n0, s0, t0 = load(shape, ndim - 2), load(s, ndim - 2), load(t, ndim - 2)
        if ndim > 2:
            n1, s1, t1 = load(shape, ndim - 3), load(s, ndim - 3), load(t, ndim - 3)
        planes = 1
        for d in range(ndim - 3):
            planes *= load(shape, d)
        if planes == 0:  # a row that copies nothing
            continue
        how = BY_LINES if streams == BY_LINES else NEVER
        if n1 * n0 * run >= STREAM_PLANE:
            if not asked:
                asked, large = True, _is_large(table, columns, first, last)
            how = ALWAYS if large else how
        done = 0
        while True:
            _plane(source, target, run, n1, s1, t1, n0, s0, t0, how)
            done += 1
            turns = done
            for d in range(ndim - 4, -1, -1):  # an odometer of the other loops
                extent = load(shape, d)
                source += load(s, d)
                target += load(t, d)
                if turns % extent:
                    break
                turns //= extent
                source -= extent * load(s, d)
                target -= extent * load(t, d)
            else:
                break
    if large:
        drain()  # on x86 a release store does not wait for streaming stores: others would read old bytes
    return 0


@on_integers
def copy_table(copy: int, table: int, columns: int, rows: int, source: int, target: int, streams: int) -> int:
    """Copy all boxes of the table at an address between two base addresses; ``copy`` is the address of `copy_rows`."""
    return copy_at(copy, table, columns, 0, rows, source, target, streams)


@on_integers
def copy_table_between(copy: int, table: int, columns: int, rows: int, source_bases: int, target_bases: int) -> int:
    """Like `copy_table`, between the addresses, in words at two addresses, that the base columns index, unchecked."""
    for row in range(rows):
        columns_of_row = table + 8 * columns * row
        source, target = load(source_bases, load(columns_of_row, 2)), load(target_bases, load(columns_of_row, 3))
        copy_at(copy, table, columns, row, row + 1, source, target, 0)
    return 0
