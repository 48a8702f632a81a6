"""Long runs of what is larger than the caches: lines are streamed past them."""

from __future__ import annotations

import numba  # noqa: F401  first of all: see compiled.py

from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.copy.vectors import LINE, move, streaming

__all__ = ["STREAM_PLANE", "STREAM_FROM", "STREAM_RUN", "stream_rows"]

STREAM_FROM = 8 << 20  # bytes that a call copies: the least that does not stay in the caches anyway
STREAM_PLANE = 4096  # bytes: the smallest plane
STREAM_RUN = 1024  # bytes: the shortest run; of a shorter one too much lies on lines that it shares

_LINES = 4  # at a time: what the 16 registers of the plainest x86 hold
_stream_lines, _stream_line = streaming(_LINES), streaming(1)


@inner
def stream_rows(source, target, run, n1, s1, t1, n0, s0, t0):
    """A plane of runs of at least a line; what lies before the first line and after the last is copied as ever."""
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
