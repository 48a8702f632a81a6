"""When the clocks of waits stand still: nobody waits too long for a rank that a person looks at, or that prepares."""

from __future__ import annotations

import sys

from spmd_grid.watch.call_site import is_ours

__all__ = ["is_debugged", "is_preparing", "stops_clocks"]

# Python's own debugger, on which pdb, ipdb and others stand, and the one of VS Code and PyCharm.
_DEBUGGERS = ("bdb", "pydevd", "_pydevd_bundle", "debugpy")
# What works for us when an operation is used for the first time.
_PREPARERS = ("numba", "llvmlite", "importlib", "_frozen_importlib", "_frozen_importlib_external")


def stops_clocks(frame) -> bool:
    """Whether the thread whose innermost frame is given is being debugged, or prepares an operation."""
    return is_preparing(frame) or is_debugged(frame)


def is_debugged(frame) -> bool:
    """Whether a thread stands at a debugger's prompt, or is being stepped.

    At the prompt the debugger's own frames are on its stack; where it steps or has breakpoints, it traces the frames.
    The outermost frame says nothing: bdb leaves its mark on it for ever.  Tracers that only take notes, as those of
    coverage, do not count.
    """
    while frame is not None:
        outer = frame.f_back
        if _room(frame.f_globals.get("__name__")) in _DEBUGGERS:
            return True
        if outer is not None and frame.f_trace is not None and _is_a_debuggers(frame.f_trace):
            return True
        frame = outer
    return False


def is_preparing(frame) -> bool:
    """Whether a thread loads or compiles what this package has called for, as the first use of an operation does."""
    called = None
    while frame is not None and not is_ours(frame):
        called, frame = frame, frame.f_back
    return called is not None and frame is not None and _room(called.f_globals.get("__name__")) in _PREPARERS


def _is_a_debuggers(trace) -> bool:
    owner = getattr(trace, "__self__", trace)
    bdb = sys.modules.get("bdb")
    if bdb is not None and isinstance(owner, bdb.Bdb):
        return True
    return _room(getattr(trace, "__module__", None) or type(owner).__module__) in _DEBUGGERS


def _room(module) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""
