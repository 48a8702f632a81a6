"""What an operation brings from one process to others, for traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Traffic", "group_name"]


class Traffic(NamedTuple):
    """``sent``: the bytes of this process's data that each other process gets; ``way``: how they go.

    ``meets``: the name of a series of operations, alike on all processes that meet in it: the n-th of one process
    meets the n-th of another; ``turn``: n, where the series itself counts.  ``awaits``: the processes whose beginning
    this one needs; None: of all that meet.
    """

    sent: dict[int, int]
    way: str
    meets: str
    awaits: tuple[int, ...] | None = None
    turn: int | None = None

    def traffic(self) -> Traffic:
        """This itself, as other movements give their traffic."""
        return self


def group_name(processes: Sequence[int]) -> str:
    """The series of the operations of a group, which all its members begin in the same order.  Local.

    >>> group_name((0, 2)) == group_name([0, 2]) != group_name((2, 0))
    True
    """
    processes = tuple(processes)
    return f"group of {len(processes)} #{hash(processes) & 0xFFFFFFFF:08x}"
