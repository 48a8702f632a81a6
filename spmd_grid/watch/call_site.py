"""The user's own line, for reports."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

__all__ = ["call_site", "main_thread_call_site"]

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep


def call_site(frame=None) -> str:
    """The innermost line outside this package, as ``file:line``; of the calling thread unless a frame is given."""
    frame = sys._getframe(1) if frame is None else frame
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return "an unknown line" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def main_thread_call_site() -> str:
    """Where the main thread is, asked from another thread."""
    return call_site(sys._current_frames().get(threading.main_thread().ident))
