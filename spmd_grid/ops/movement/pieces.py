"""A run in pieces: what a member waits for, folds, packs, sends and takes, as compiled code needs it.

See ``kernels/ahead/pieces.py``, which runs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from spmd_grid.kernels import BoxRow
from spmd_grid.kernels.ahead.slots import IN_MEMORY

__all__ = ["Arrival", "Leave", "Memory", "Pieces", "Position", "Step", "Take", "opened_by"]

_LINE = 64  # bytes: pieces share no line


class Position(NamedTuple):
    """Byte ``at`` of the array of a member of the node, or of a memory (IN_MEMORY)."""

    source: int
    at: int


class Arrival(NamedTuple):
    """A piece from ``peer``, to byte ``at`` of this member's memory; ``order``: that in which the peer sends.

    ``lands``: it comes to byte ``at`` of the result itself, where no other member needs it.
    """

    order: tuple[Any, ...]
    peer: int
    at: int
    n_bytes: int
    lands: bool = False


class Leave(NamedTuple):
    """A piece to ``peer``."""

    peer: int
    position: Position
    n_bytes: int


class Step(NamedTuple):
    """Wait for arrivals, fold ``inputs`` of some elements into byte ``into`` of the memory, or pack; then send.

    ``made``: the number of pieces that others of the node may take after it; 0: no more than before.
    """

    arrivals: Sequence[Arrival] = ()
    inputs: Sequence[Position] = ()
    into: int = 0
    elements: int = 0
    packs: Sequence[BoxRow] = ()
    leaves: Sequence[Leave] = ()
    made: int = 0


class Take(NamedTuple):
    """Copy ``rows`` to the result, once ``member`` has ``made`` a number of pieces; 0: from its array, or a constant.

    IN_MEMORY stands for the memory of ``member``.
    """

    member: int
    made: int
    position: Position
    rows: Sequence[BoxRow]


class Pieces(NamedTuple):
    """A member's part of a run: its steps, its takes, the bytes of its memory, and steps that wait for nothing.

    ``gate``: the first step that reads arrays of others of the node.  ``fold``: the address of the compiled fold.
    ``prepared``: rows that copy the array to the start of the memory, for others to read.  ``lends``: whether others of
    the node read this member's array or memory: a run waits for them at its end.  ``copies``: rows that copy what they
    read of the array instead, to where it is left behind.  ``opens``: the members on which this one's first piece opens
    the run, since it waits for nothing; ``opened_by``: those that open it here so.
    """

    steps: Sequence[Step]
    takes: Sequence[Take]
    n_bytes: int
    gate: int
    fold: int
    prepared: Sequence[BoxRow]
    lends: bool
    departures: Sequence[Step] = ()
    copies: Sequence[BoxRow] = ()
    opens: Collection[int] = ()
    opened_by: Collection[int] = ()

    @property
    def leaves(self) -> list[Leave]:
        """All pieces that this member sends."""
        return [leave for step in (*self.steps, *self.departures) for leave in step.leaves]

    def read_by(self, me: int) -> list[int]:
        """The other members of the node whose arrays or memory this one, ``me``, reads."""
        return sorted((self._read_in_steps() | {take.member for take in self.takes}) - {me, IN_MEMORY})

    def last_read(self, me: int) -> int:
        """The takes after which ``me`` reads nothing of others; more: not before the end, or its messages have gone."""
        sent = {leave.position.source for leave in self.leaves} - {me, IN_MEMORY}
        if sent or self._read_in_steps() - {me, IN_MEMORY}:
            return len(self.takes) + (2 if sent else 1)
        return max((number for number, take in enumerate(self.takes, 1) if take.member != me), default=0)

    def _read_in_steps(self) -> set[int]:
        """The members whose arrays or memory steps and departures read."""
        found = {position.source for step in self.steps for position in step.inputs}
        return found | {leave.position.source for leave in self.leaves}

    @property
    def sent(self) -> dict[int, int]:
        """The bytes that this member sends to each member of another node."""
        found: dict[int, int] = {}
        for leave in self.leaves:
            found[leave.peer] = found.get(leave.peer, 0) + leave.n_bytes
        return found

    @property
    def openings(self) -> Mapping[int, Arrival]:
        """The pieces that open the run here, which do not land, by their senders."""
        arrivals = [arrival for step in self.steps for arrival in step.arrivals if arrival.peer in self.opened_by]
        return {arrival.peer: arrival for arrival in sorted(arrivals, key=lambda each: each.order, reverse=True)}

    @property
    def senders(self) -> list[int]:
        """The members that send pieces to this one."""
        return sorted({arrival.peer for step in self.steps for arrival in step.arrivals})

    @property
    def receivers(self) -> list[int]:
        """The members to which this one sends pieces."""
        return sorted({leave.peer for leave in self.leaves})


def opened_by(steps: Iterable[Step]) -> frozenset[int]:
    """The members on which the first piece of who makes ``steps`` opens the run: it waits for none."""
    before = takewhile(lambda step: not step.arrivals, steps)
    return frozenset(leave.peer for step in before for leave in step.leaves)


class Memory:
    """A memory that is given out part by part."""

    def __init__(self) -> None:
        self.n_bytes = 0

    def take(self, n_bytes: int) -> int:
        """The first byte of the next part."""
        start = self.n_bytes
        self.n_bytes += -(-n_bytes // _LINE) * _LINE
        return start
