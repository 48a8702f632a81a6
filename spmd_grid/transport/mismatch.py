"""The error with a table of what each process does, for processes that should do the same."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from spmd_grid.errors import MismatchError

__all__ = [
    "DIFFERENT_CALLS",
    "DIFFERENT_GRIDS",
    "DIFFERENT_GROUPS",
    "OVERLAPPING_GROUPS",
    "in_columns",
    "listed",
    "mismatch",
]

DIFFERENT_CALLS = "processes of one group are in different operations, or pass different arguments to one"
DIFFERENT_GRIDS = "processes make different grids"
DIFFERENT_GROUPS = "processes put one group in different orders"
OVERLAPPING_GROUPS = "processes wait for one another in different groups"

_MOST_LINES = _MOST_NUMBERS = 64


def mismatch(lines: Sequence[str], what: str = DIFFERENT_CALLS) -> MismatchError:
    """The error ``what``, with a table of ``lines``, one for each process."""
    shown = "\n".join(f"  {text}" for text in lines[:_MOST_LINES]) + ("\n  ..." if len(lines) > _MOST_LINES else "")
    return MismatchError(f"{what}\n{shown}")


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Each row as a line: its first and last columns, and those between in which rows differ.

    >>> in_columns([("rank 0: f()", " on 2x3", " at a.py:1"), ("rank 1: f()", " on 2x3", " at a.py:1")])
    ['rank 0: f() at a.py:1', 'rank 1: f() at a.py:1']
    >>> in_columns([("rank 0: f()", " on 2x3", " at a.py:1"), ("rank 1: f()", " on 3x2", " at a.py:1")])
    ['rank 0: f() on 2x3 at a.py:1', 'rank 1: f() on 3x2 at a.py:1']
    """
    last = len(rows[0]) - 1
    kept = [at for at in range(last + 1) if at in (0, last) or len({row[at] for row in rows}) > 1]
    return ["".join([row[at] for at in kept]) for row in rows]


def listed(numbers: Sequence[int]) -> str:
    """The numbers as text, shortened with a digest, so that different numbers give different texts.

    >>> listed([1, 0]), listed(range(70))[-33:]
    ('(1, 0)', '62, 63, ... 70 of them: f51980bf)')
    """
    shown = ", ".join(map(str, numbers[:_MOST_NUMBERS]))
    if len(numbers) <= _MOST_NUMBERS:
        return f"({shown}{',' * (len(numbers) == 1)})"
    digest = blake2b(repr(tuple(numbers)).encode(), digest_size=4).hexdigest()
    return f"({shown}, ... {len(numbers)} of them: {digest})"
