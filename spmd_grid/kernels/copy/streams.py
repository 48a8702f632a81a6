"""Copies of long runs that stream whole lines past the caches, for data larger than the caches."""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.copy.vectors import LINE, move, streaming

__all__ = ["STREAM_PLANE", "STREAM_FROM", "STREAM_RUN", "stream_rows"]

STREAM_FROM = 8 << 20  # bytes that a call copies: from here on they would not stay in the caches anyway
STREAM_PLANE = 4096  # bytes: the smallest plane
STREAM_RUN = 1024  # bytes: the shortest run; too much of a shorter one lies on lines that it shares

_LINES = 4  # at a time: they fit into the 16 registers of every x86 processor
_stream_lines, _stream_line = streaming(_LINES), streaming(1)


@inner
def stream_rows(source: int, target: int, run: int, n1: int, s1: int, t1: int, n0: int, s0: int, t0: int) -> None:
    """Copy a plane of runs of at least a line; bytes outside whole lines are moved plainly."""
    for i1 in range(n1):
        for i0 in range(n0):
            s = source + i1 * s1 + i0 * s0
            t = target + i1 * t1 + i0 * t0
            end = t + run
            before = -t % LINE
            if before:
                move(s, t, before)
                s, t = s + before, t + before
            while end - t >= _LINES * LINE:
                _stream_lines(s, t)
                s, t = s + _LINES * LINE, t + _LINES * LINE
            while end - t >= LINE:
                _stream_line(s, t)
                s, t = s + LINE, t + LINE
            if t < end:
                move(s, t, end - t)
