"""The user's own line, for reports."""

from __future__ import annotations

import os
import sys
import threading
from functools import lru_cache
from pathlib import Path

__all__ = ["PACKAGE", "call_site", "is_ours", "main_frame", "main_thread_call_site"]

PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep


def call_site(frame=None) -> str:
    """The innermost line outside this package, as ``file:line``; of the calling thread unless a frame is given."""
    frame = sys._getframe(1) if frame is None else frame
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):  # not `is_ours`: every record asks
        frame = frame.f_back
    return "an unknown line" if frame is None else f"{_short(frame.f_code.co_filename)}:{frame.f_lineno}"


_short = lru_cache(os.path.basename)


def is_ours(frame) -> bool:
    """Whether a frame runs code of this package."""
    return frame.f_code.co_filename.startswith(PACKAGE)


def main_frame():
    """What the main thread runs, asked from another thread."""
    return sys._current_frames().get(threading.main_thread().ident)


def main_thread_call_site() -> str:
    """Where the main thread is, asked from another thread."""
    return call_site(main_frame())
