"""The end of a child made by fork: it leaves MPI, which is its parent's, alone.

mpi4py finalizes MPI as the interpreter's very last act, in a child as well, whose finalizing meets nobody: it waits for
ever, or takes the place of the parent's.  So a child ends before that, when its `atexit` functions have been called.
"""

from __future__ import annotations

import os
import sys

__all__ = ["end_child", "note_ends_of_children"]

_status = 0


class _Exit(SystemExit):
    """What `sys.exit` raises in a child: tells with which code the interpreter ends it."""

    @property
    def code(self):
        code = self.args[0] if self.args else None
        try:
            sys._getframe(1)
        except ValueError:  # nobody's code asks: it is the interpreter, which ends
            _end_with(code)
        return code


def _end_with(code) -> None:
    global _status
    _status = 0 if code is None else code & 0xFF if isinstance(code, int) else 1


def _exit(status=None, /):
    raise _Exit(status)


def note_ends_of_children() -> None:
    """From now on, children made by fork remember with which code they end."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_note)


def _note() -> None:
    sys.exit = _exit
    vars(sys).pop("last_value", None)


def end_child() -> None:
    """Ends this process, a child made by fork, with its code: 1 behind an exception, else that of `sys.exit`, or 0."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(1 if hasattr(sys, "last_value") else _status)
