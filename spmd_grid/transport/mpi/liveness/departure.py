"""The record that a process leaves when it ends, and the waits that are compared with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from spmd_grid.formatting import spans

__all__ = ["Departed", "Departure", "WaitedFor", "WireKey", "absent_member", "runs_that_differ"]

WireKey: TypeAlias = tuple[tuple[int, ...], int]  # the processes of its group, and its number there


@dataclass
class Departure:
    """The operations in which a process that ended had taken part.

    By group: number of meetings entered, of frames sent to and received from each member, and of receives that wait
    for one (``asked``); by wire: of exchanges begun.
    ``digests``, by wire: of the exchanges begun, where these may be of several kinds and processes do not wait for one
    another.  ``opening``: the members of groups whose first use has begun.
    """

    label: str
    entered: dict[tuple[int, ...], int] = field(default_factory=dict)
    sent: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    received: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    asked: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    exchanged: dict[WireKey, int] = field(default_factory=dict)
    digests: dict[WireKey, int] = field(default_factory=dict)
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


def runs_that_differ(own: Departure, others: Iterable[Departure]) -> str:
    """A sentence about a process that has ended after other runs of plans than this one; empty if there is none.

    Runs that do not meet are compared by those that need something of them, and by the group's next meeting.  After the
    end of a program there is none.
    """
    for other in others:
        for wire, digest in own.digests.items():
            if other.digests.get(wire, digest) != digest:
                members, runs, theirs = wire[0], own.exchanged[wire], other.exchanged[wire]
                how = f"{theirs} runs" if theirs != runs else "as many runs, but of others"
                return (
                    f"{own.label} ended after {runs} runs of plans in the group of ranks {spans(members)},"
                    f" {other.label} after {how}; results of one run may have been taken for those of another"
                )
    return ""
