"""The record that a process leaves when it ends, and the waits that are compared with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

__all__ = ["Departed", "Departure", "WaitedFor", "absent_member"]


@dataclass
class Departure:
    """The operations in which a process that ended had taken part.

    By group: number of meetings entered, of frames sent to and received from each member; by wire: of exchanges begun.
    ``opening``: the members of groups whose first use has begun.
    """

    label: str
    entered: dict[tuple[int, ...], int] = field(default_factory=dict)
    sent: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    received: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    exchanged: dict[tuple[Any, ...], int] = field(default_factory=dict)
    digests: dict[tuple[Any, ...], int] = field(default_factory=dict)
    opening: set[tuple[int, ...]] = field(default_factory=set)


Departed: TypeAlias = dict[int, Departure]  # by process


class WaitedFor(Protocol):
    """Something that the main thread waits for, and that processes which have ended may never complete.

    Every wait is an object of its own, which may stay known after its end; then it has no ended partner.
    ``for_message``: whether it is a message that another process has to send by itself.
    """

    for_message: bool

    def ended_partner(self, departed: Departed) -> int | None:
        """The process that ended without completing this, so that it never will be; None while it may be."""

    def awaited(self) -> Sequence[int]:
        """The processes all of which have to come; none where any of several would do."""


def absent_member(processes: tuple[int, ...], meeting: int, departed: Departed) -> int | None:
    """The member that ended before it entered a meeting of the group; meetings are counted from 1."""
    for process in processes:
        if process in departed and departed[process].entered.get(processes, 0) < meeting:
            return process
    return None
