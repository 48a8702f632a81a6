"""Copies of long runs line by line: past the caches, for data larger than these; or through them.

On some processors memcpy copies long runs by an instruction that is fast for a processor's own data, but slower than a
loop over lines in fetching those that another processor has written.
"""

from __future__ import annotations

from collections.abc import Callable

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.copy.vectors import LINE, lines_moved, move

__all__ = ["LINES_RUN", "STREAM_PLANE", "STREAM_RUN", "line_rows", "stream_rows"]

STREAM_PLANE = 4096  # bytes: the smallest plane
STREAM_RUN = 1024  # bytes: the shortest run; too much of a shorter one lies on lines that it shares
LINES_RUN = 1 << 14  # bytes: the shortest run that is copied line by line through the caches

_LINES = 4  # at a time: they fit into the 16 registers of every x86 processor


def _by_lines(streaming: bool) -> Callable[..., None]:
    """Make the copy of a plane of runs of at least a line; bytes outside whole lines are moved plainly."""
    move_lines, move_line = lines_moved(_LINES, streaming), lines_moved(1, streaming)

    @inner
    def rows(source: int, target: int, run: int, n1: int, s1: int, t1: int, n0: int, s0: int, t0: int) -> None:
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
                    move_lines(s, t)
                    s, t = s + _LINES * LINE, t + _LINES * LINE
                while end - t >= LINE:
                    move_line(s, t)
                    s, t = s + LINE, t + LINE
                if t < end:
                    move(s, t, end - t)

    return rows


stream_rows, line_rows = _by_lines(True), _by_lines(False)
