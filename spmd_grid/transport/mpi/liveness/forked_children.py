"""The end of a child made by fork, without finalizing MPI, which belongs to its parent.

mpi4py finalizes MPI as the very last act of the interpreter, in a child as well: there it would wait for ever, or take
the place of the parent's part in MPI_Finalize.  It offers no way to prevent that once it is imported.  So a child ends
before that, by ``os._exit`` in its last `atexit` function.  Python passes its exit code to no such function: in
children `sys.exit` raises a `SystemExit` that notes the code when the interpreter, in C, reads it.  (A child that
raises `SystemExit` itself ends with code 0.)
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

__all__ = ["end_child", "note_ends_of_children"]

_status = 0


class _Exit(SystemExit):
    """The exception of `sys.exit` in a child; notes the code with which the interpreter ends."""

    @property
    def code(self) -> object:  # type: ignore[override]  # an attribute of SystemExit
        code = self.args[0] if self.args else None
        try:
            sys._getframe(1)
        except ValueError:  # there is no calling frame: the interpreter reads it, and ends
            _note_code(code)
        return code


def _note_code(code: object) -> None:
    global _status
    _status = 0 if code is None else code & 0xFF if isinstance(code, int) else 1


def _exit(status: object = None, /) -> NoReturn:
    raise _Exit(status)


def note_ends_of_children() -> None:
    """Makes children made by fork from now on note the code with which they end."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_replace_exit)


def _replace_exit() -> None:
    sys.exit = _exit
    vars(sys).pop("last_value", None)


def end_child() -> NoReturn:
    """Ends this process, a child made by fork, with its code: 1 after an exception, else that of `sys.exit`, or 0."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(1 if hasattr(sys, "last_value") else _status)
