"""Pauses of time limits: waiting for a rank that is being debugged, or that compiles, does not count."""

from __future__ import annotations

import sys
from types import FrameType

from spmd_grid.watch.call_site import is_ours

__all__ = ["is_debugged", "is_preparing", "stops_clocks"]

# Python's own debugger, on which pdb, ipdb and others are built, and that of VS Code and PyCharm.
_DEBUGGERS = ("bdb", "pydevd", "_pydevd_bundle", "debugpy")
# Modules that load or compile code when an operation is used for the first time.
_PREPARERS = ("numba", "llvmlite", "importlib", "_frozen_importlib", "_frozen_importlib_external")


def stops_clocks(frame: FrameType | None) -> bool:
    """Whether the thread with this innermost frame is being debugged, or prepares an operation."""
    return is_preparing(frame) or is_debugged(frame)


def is_debugged(frame: FrameType | None) -> bool:
    """Whether a thread is at a debugger's prompt, or is being stepped.

    At the prompt the debugger's own frames are on the stack; while it steps or has breakpoints, it traces the frames.
    The outermost frame is ignored, since bdb never removes its trace function there.  Tracers that only take notes,
    such as those of coverage, do not count.
    """
    while frame is not None:
        outer = frame.f_back
        if _top_package(frame.f_globals.get("__name__")) in _DEBUGGERS:
            return True
        if outer is not None and frame.f_trace is not None and _is_of_debugger(frame.f_trace):
            return True
        frame = outer
    return False


def is_preparing(frame: FrameType | None) -> bool:
    """Whether a thread loads or compiles code on behalf of this package, as the first use of an operation does."""
    called: FrameType | None = None
    while frame is not None and not is_ours(frame):
        called, frame = frame, frame.f_back
    return called is not None and frame is not None and _top_package(called.f_globals.get("__name__")) in _PREPARERS


def _is_of_debugger(trace: object) -> bool:
    """Whether a trace function belongs to a debugger."""
    owner = getattr(trace, "__self__", trace)
    bdb = sys.modules.get("bdb")
    if bdb is not None and isinstance(owner, bdb.Bdb):
        return True
    return _top_package(getattr(trace, "__module__", None) or type(owner).__module__) in _DEBUGGERS


def _top_package(module: object) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""
