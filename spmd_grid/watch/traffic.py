"""Protocols of what reports describe, and the bytes that an operation moves to other processes, for traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

__all__ = ["Activity", "HasTraffic", "Traffic", "group_name"]


class Traffic(NamedTuple):
    """The traffic of one operation of one process.

    ``sent``: bytes to each other process; ``way``: the path that they take.  ``series``: the name of a series of
    operations, equal on all processes that take part: the n-th operation of one process belongs to the n-th of another;
    ``turn``: n, if the series counts by itself.  ``awaits``: the processes that must have begun theirs before this one
    can end; None: all of the series.
    """

    sent: dict[int, int]
    way: str
    series: str
    awaits: tuple[int, ...] | None = None
    turn: int | None = None

    def traffic(self) -> Traffic:
        """The traffic itself: it needs no conversion."""
        return self


class Activity(Protocol):
    """An operation that can describe itself; reports ask it, hot calls only store it."""

    def describe(self) -> str:
        """Describe the operation."""


class HasTraffic(Protocol):
    """A part of an operation that moves bytes, such as a `Channel` or a `Movement`."""

    def traffic(self) -> Traffic:
        """Its part of a trace."""


def group_name(processes: Sequence[int]) -> str:
    """The name of the series of a group's operations, which all members begin in the same order.  Local.

    >>> group_name((0, 2)) == group_name([0, 2]) != group_name((2, 0))
    True
    """
    return f"group of {len(processes)} #{hash(tuple(processes)) & 0xFFFFFFFF:08x}"
