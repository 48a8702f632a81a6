"""Call sites: the lines of the user's program, for reports."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from types import FrameType

import numpy as np

from spmd_grid.watch.frames import look_at_main_frame

__all__ = ["PACKAGE", "call_site", "is_ours", "main_thread_call_site"]

PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_NOT_USERS = PACKAGE, os.path.dirname(np.__file__) + os.sep  # numpy calls operators of arrays for the user
_COMPILERS = "numba", "llvmlite"  # what these call in their turn is not the user's either


def call_site(frame: FrameType | None = None) -> str:
    """The innermost line outside this package and numpy, as ``file:line``; of the calling thread without a frame.

    A thread whose frame is given may be compiling: then the line that has called the compiler.
    """
    frame = sys._getframe(1) if frame is None else _outside_compilers(frame)
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_USERS):
        frame = frame.f_back
    return "an unknown line" if frame is None else f"{_short(frame.f_code.co_filename)}:{frame.f_lineno}"


def _outside_compilers(frame: FrameType) -> FrameType | None:
    outside: FrameType | None = frame
    each: FrameType | None = frame
    while each is not None:
        if str(each.f_globals.get("__name__")).partition(".")[0] in _COMPILERS:
            outside = each.f_back
        each = each.f_back
    return outside


_short = lru_cache(os.path.basename)


def is_ours(frame: FrameType) -> bool:
    """Whether a frame runs code of this package."""
    return frame.f_code.co_filename.startswith(PACKAGE)


def main_thread_call_site() -> str:
    """The call site of the main thread, for other threads."""
    return look_at_main_frame(call_site)
