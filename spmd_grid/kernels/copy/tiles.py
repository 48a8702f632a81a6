"""Copies of planes of packed words whose two sides run along different dimensions: tiles are transposed in registers.

A tile is a line of the source by a line of the target, so that each line is read and written once, and whole.  Tiles
are walked in blocks of 512 bytes each way, whose pages and lines fit into the caches: along the target if what is
written stays in the caches; along the source if it is streamed past them.  The last tile of a row may overlap the
one before it, and so may the first if the target does not begin on a line.
"""

from __future__ import annotations

from collections.abc import Callable

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.compiled import inner, pasted
from spmd_grid.kernels.copy.vectors import LINE, turn

__all__ = ["turn_plane"]

_BLOCK = 8  # tiles


def _turner(width: int, edge: int) -> Callable[..., None]:
    """Make the copy of a plane of words of ``width`` bytes, at least ``edge`` words each way."""
    turned, length = turn(width, edge), edge * width

    @inner
    def plane(source: int, target: int, n1: int, t1: int, n0: int, s0: int, streamed: bool) -> None:
        streamed = streamed and target % width == 0 and t1 % length == 0
        along_source = streamed and length == LINE
        first = 0
        if streamed and target % length:
            first = -(target % length) // width
        tiles1, tiles0 = (n1 - 1) // edge + 1, (n0 - first - 1) // edge + 1
        for lo0 in range(0, tiles0, _BLOCK):
            for lo1 in range(0, tiles1, _BLOCK):
                n_u, n_v = min(_BLOCK, tiles1 - lo1), min(_BLOCK, tiles0 - lo0)
                if along_source:
                    n_u, n_v = n_v, n_u
                for u in range(n_u):
                    for v in range(n_v):
                        at1, at0 = (v, u) if along_source else (u, v)
                        i1 = min((lo1 + at1) * edge, n1 - edge)
                        i0 = min(max(first + (lo0 + at0) * edge, 0), n0 - edge)
                        t = target + i1 * t1 + i0 * width
                        turned(source + i0 * s0 + i1 * width, s0, t, t1, streamed and t % length == 0)

    return plane


# Tiles of 32 bytes each way for single bytes: 64 lines are more than a processor has registers.
_EDGES = {1: 32, 2: 32, 4: 16, 8: 8, 16: 4}
_turn_1, _turn_2, _turn_4, _turn_8, _turn_16 = (_turner(*item) for item in _EDGES.items())


@pasted
def turn_plane(source: int, target: int, width: int, n1: int, t1: int, n0: int, s0: int, streamed: bool) -> bool:
    """Copy word (i1, i0) from ``source + i0 * s0 + i1 * width`` to ``target + i1 * t1 + i0 * width``.

    Returns whether it did: it takes words of 1, 2, 4, 8 and 16 bytes, and no narrow planes.
    """
    fewest = min(n1, n0)
    if width == 8 and fewest >= 8:
        _turn_8(source, target, n1, t1, n0, s0, streamed)
    elif width == 4 and fewest >= 16:
        _turn_4(source, target, n1, t1, n0, s0, streamed)
    elif width == 16 and fewest >= 4:
        _turn_16(source, target, n1, t1, n0, s0, streamed)
    elif width == 2 and fewest >= 32:
        _turn_2(source, target, n1, t1, n0, s0, streamed)
    elif width == 1 and fewest >= 32:
        _turn_1(source, target, n1, t1, n0, s0, streamed)
    else:
        return False
    return True
