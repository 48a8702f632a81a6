"""Compiled box copies: one specialisation for every dtype and rank, since all it sees is bytes and strides.

Long runs go through libc's memcpy.  A short run is moved as words of W bytes, the last of which may overlap the one
before it (the technique of glibc's memcpy for small sizes).  Planes whose two sides run along different dimensions
are walked in tiles of one cache line each way.  Source and target must not overlap.
"""

from __future__ import annotations

from functools import partial

import numba  # first of all: see compiled.py
from llvmlite import ir
from numba import carray
from numba.extending import intrinsic

from spmd_grid.kernels.address import copy_at, pointer
from spmd_grid.kernels.compiled import by_address, inner, kernel

LINE = 64  # bytes: a cache line, and the edge of a tile
MEMCPY_FROM = 256  # bytes: the shortest run that is worth a call of memcpy


@intrinsic
def move(typingctx, source, target, size):
    """Copy ``size`` bytes between two addresses: loads and stores where size is a constant, else a memcpy call."""

    def emit(context, builder, signature, args):
        pointer = ir.IntType(8).as_pointer()
        memcpy = builder.module.declare_intrinsic("llvm.memcpy", [pointer, pointer, args[2].type])
        source, target = (builder.inttoptr(address, pointer) for address in args[:2])
        builder.call(memcpy, [target, source, args[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return numba.void(numba.int64, numba.int64, numba.int64), emit


def _words(width):
    """A plane of runs of exactly ``width`` bytes, in tiles where the source's fastest dimension is the outer one."""
    edge = max(LINE // width, 8)

    @inner
    def plane(source, target, n1, s1, t1, n0, s0, t0):
        edge1, edge0 = n1, n0
        if 0 < abs(s1) < abs(s0):
            edge1, edge0 = edge, edge
        for lo0 in range(0, n0, edge0):
            hi0 = min(lo0 + edge0, n0)
            for lo1 in range(0, n1, edge1):
                for i1 in range(lo1, min(lo1 + edge1, n1)):
                    for i0 in range(lo0, hi0):
                        move(source + i1 * s1 + i0 * s0, target + i1 * t1 + i0 * t0, width)

    return plane


def _pairs(width):
    """A plane of runs of ``width + 1`` to ``2 * width`` bytes: two words, which may overlap."""

    @inner
    def plane(source, target, last, n1, s1, t1, n0, s0, t0):
        for i1 in range(n1):
            for i0 in range(n0):
                s = source + i1 * s1 + i0 * s0
                t = target + i1 * t1 + i0 * t0
                move(s, t, width)
                move(s + last, t + last, width)

    return plane


_words_1, _words_2, _words_4, _words_8, _words_16 = map(_words, (1, 2, 4, 8, 16))
_pairs_2, _pairs_4, _pairs_8, _pairs_16, _pairs_32 = map(_pairs, (2, 4, 8, 16, 32))


@inner
def _chunks(source, target, run, n1, s1, t1, n0, s0, t0):
    """A plane of runs of more than 64 bytes: words of 64 bytes, the last of which may overlap."""
    for i1 in range(n1):
        for i0 in range(n0):
            s = source + i1 * s1 + i0 * s0
            t = target + i1 * t1 + i0 * t0
            for at in range(0, run - 64, 64):
                move(s + at, t + at, 64)
            move(s + run - 64, t + run - 64, 64)


@inner
def _rows(source, target, run, n1, s1, t1, n0, s0, t0):
    """A plane of long runs: a memcpy each."""
    for i1 in range(n1):
        for i0 in range(n0):
            move(source + i1 * s1 + i0 * s0, target + i1 * t1 + i0 * t0, run)


@inner
def _plane(source, target, run, n1, s1, t1, n0, s0, t0):
    """Copy n1 x n0 runs of ``run`` bytes."""
    if run >= MEMCPY_FROM:
        _rows(source, target, run, n1, s1, t1, n0, s0, t0)
    elif run == 8:
        _words_8(source, target, n1, s1, t1, n0, s0, t0)
    elif run == 4:
        _words_4(source, target, n1, s1, t1, n0, s0, t0)
    elif run == 16:
        _words_16(source, target, n1, s1, t1, n0, s0, t0)
    elif run == 2:
        _words_2(source, target, n1, s1, t1, n0, s0, t0)
    elif run == 1:
        _words_1(source, target, n1, s1, t1, n0, s0, t0)
    elif run > 64:
        _chunks(source, target, run, n1, s1, t1, n0, s0, t0)
    elif run > 32:
        _pairs_32(source, target, run - 32, n1, s1, t1, n0, s0, t0)
    elif run > 16:
        _pairs_16(source, target, run - 16, n1, s1, t1, n0, s0, t0)
    elif run > 8:
        _pairs_8(source, target, run - 8, n1, s1, t1, n0, s0, t0)
    elif run > 4:
        _pairs_4(source, target, run - 4, n1, s1, t1, n0, s0, t0)
    else:
        _pairs_2(source, target, run - 2, n1, s1, t1, n0, s0, t0)


@inner
def _box(table, row, source, target):
    """Copy one row of a table: its two innermost loops as planes, the outer ones by an odometer."""
    ndim = (table.shape[1] - 4) // 3
    shape, s, t = 4, 4 + ndim, 4 + 2 * ndim
    loops = ndim - 1
    n1, s1, t1, n0, s0, t0 = 1, 0, 0, 1, 0, 0
    if loops > 0:
        n0, s0, t0 = table[row, shape + loops - 1], table[row, s + loops - 1], table[row, t + loops - 1]
    if loops > 1:
        n1, s1, t1 = table[row, shape + loops - 2], table[row, s + loops - 2], table[row, t + loops - 2]
    planes = 1
    for d in range(loops - 2):
        planes *= table[row, shape + d]
    source += table[row, 0]
    target += table[row, 1]
    run = table[row, shape + loops]
    for plane in range(planes):
        _plane(source, target, run, n1, s1, t1, n0, s0, t0)
        done = plane + 1
        for d in range(loops - 3, -1, -1):
            extent = table[row, shape + d]
            source += table[row, s + d]
            target += table[row, t + d]
            if done % extent:
                break
            done //= extent
            source -= extent * table[row, s + d]
            target -= extent * table[row, t + d]


@by_address("int64(int64, int64, int64, int64, int64, int64)")
def copy_rows(table, columns, first, last, source_base, target_base):
    """Copy the boxes of rows ``first`` to ``last`` (not included) of the table at an address; the bases are addresses.

    Other kernels call it by its address: it takes a second to compile, and once is enough.
    """
    rows = carray(pointer(table, "int64"), (last, columns))
    for row in range(first, last):
        _box(rows, row, source_base, target_base)
    return 0


@kernel("void(int64, int64[:, ::1], int64, int64)")
def _copy_boxes(copy, table, source_base, target_base):
    copy_at(copy, table.ctypes.data, table.shape[1], 0, table.shape[0], source_base, target_base)


@kernel("void(int64, int64[:, ::1], int64[::1], int64[::1])")
def _copy_boxes_between(copy, table, source_bases, target_bases):
    rows, columns = table.shape
    for row in range(rows):
        source, target = source_bases[table[row, 2]], target_bases[table[row, 3]]
        copy_at(copy, table.ctypes.data, columns, row, row + 1, source, target)


copy_address = copy_rows.address

# copy_boxes(table, source_base, target_base): copies every box of ``table`` between two base addresses; base columns
# are not read.  copy_boxes_between(table, source_bases, target_bases): from and to the base addresses that the base
# columns index, which are not checked.  Local; they need no GIL.  Source and target bytes must not overlap.
copy_boxes = partial(_copy_boxes, copy_address)
copy_boxes_between = partial(_copy_boxes_between, copy_address)
