"""Frames of other threads, looked at without an accident.

Python 3.11 makes the object of a frame when it is asked for it.  Like any other object it may begin a garbage
collection, in which destructors and callbacks run, and other threads while these do.  Then the frame may be gone, and
the new object is bound to memory in which other frames lie by now: to follow it ends the process, or worse.  So garbage
is not collected while frames are looked at.  Later versions of Python collect garbage between instructions alone.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TypeVar

__all__ = ["look_at_frames", "look_at_main_frame"]

_COLLECTS_WITHIN = sys.version_info < (3, 12)
_lock = threading.RLock()  # one thread at a time changes what begins a collection

Result = TypeVar("Result")


def look_at_frames(look: Callable[[Mapping[int, FrameType]], Result]) -> Result:
    """``look(frames)``, with the innermost frame of each thread by its identifier.  Local.

    Only ``look`` may follow the frames, and it waits for nothing.
    """
    if not _COLLECTS_WITHIN:
        return look(sys._current_frames())
    with _lock:
        most, *_ = gc.get_threshold()
        try:
            gc.set_threshold(0)
            return look(sys._current_frames())
        finally:
            gc.set_threshold(most)


def look_at_main_frame(look: Callable[[FrameType | None], Result]) -> Result:
    """``look(frame)``, with the innermost frame of the main thread, for other threads.  Local; as `look_at_frames`."""
    return look_at_frames(lambda frames: look(frames.get(threading.main_thread().ident or 0)))
