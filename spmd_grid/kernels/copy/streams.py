"""Copies of long runs line by line: past the caches, for data larger than these; or through them.

On some processors memcpy copies long runs by an instruction that is fast for a processor's own data, but slower than a
loop over lines in fetching those that another processor has written.
"""

from __future__ import annotations

from collections.abc import Callable

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.copy.planes import plane_of
from spmd_grid.kernels.copy.vectors import LINE, lines_moved, move

__all__ = ["LINES_RUN", "STREAM_PLANE", "STREAM_RUN", "copy_lines", "line_rows", "stream_rows"]

STREAM_PLANE = 4096  # bytes: the smallest plane
STREAM_RUN = 1024  # bytes: the shortest run; too much of a shorter one lies on lines that it shares
LINES_RUN = 1 << 14  # bytes: the shortest run that is copied line by line through the caches

_LINES = 4  # at a time: they fit into the 16 registers of every x86 processor


def _by_lines(streaming: bool) -> Callable[..., None]:
    """Make the copy of a run of at least a line; bytes outside whole lines are moved plainly."""
    move_lines, move_line = lines_moved(_LINES, streaming), lines_moved(1, streaming)

    @inner
    def lines(source: int, target: int, run: int) -> None:
        end, before = target + run, -target % LINE
        if before:
            move(source, target, before)
            source, target = source + before, target + before
        while end - target >= _LINES * LINE:
            move_lines(source, target)
            source, target = source + _LINES * LINE, target + _LINES * LINE
        while end - target >= LINE:
            move_line(source, target)
            source, target = source + LINE, target + LINE
        if target < end:
            move(source, target, end - target)

    return lines


copy_lines = _by_lines(False)
stream_rows, line_rows = plane_of(_by_lines(True)), plane_of(copy_lines)
