"""The output of commands: text on stdout, or a refusal in one line on stderr."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable

from spmd_grid.errors import SpmdError
from spmd_grid.formatting import printable

__all__ = ["refuse", "reported", "reported_with_code"]

_LONGEST = 600  # letters of a refusal


def reported(name: str, command: Callable[[Namespace], str]) -> Callable[[Namespace], int]:
    """``command`` with its text printed; its refusals are one line on stderr, with exit code 2."""
    return reported_with_code(name, lambda options: (command(options), 0))


def reported_with_code(name: str, command: Callable[[Namespace], tuple[str, int]]) -> Callable[[Namespace], int]:
    """As `reported`, for a command that gives its exit code beside its text."""

    def run(options: Namespace) -> int:
        try:
            text, code = command(options)
        except OverflowError:
            return refuse(name, "the grid or the array is too large to plan")
        except (SpmdError, OSError) as error:
            return refuse(name, str(error))
        try:
            if text:
                _say(text)
        except BrokenPipeError:  # the reader, such as head, has closed the pipe
            _drop_output()
        return code

    return run


def refuse(name: str, reason: str) -> int:
    """Print on stderr, in one line, why a command refuses; returns the exit code."""
    line = printable(" ".join(reason.split()))
    print(f"spmd_grid {name}: {line if len(line) <= _LONGEST else line[:_LONGEST] + '...'}", file=sys.stderr)
    return 2


def _say(text: str) -> None:
    text = printable(text, keep="\n\t")
    try:
        print(text, flush=True)
    except UnicodeEncodeError:
        print(text.replace("↓", "v").encode("ascii", "replace").decode(), flush=True)


def _drop_output() -> None:
    """Let the interpreter end without a complaint about output that is no longer read."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
