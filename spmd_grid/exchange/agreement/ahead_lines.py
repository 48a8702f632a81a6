"""Lines and messages of a group for runs of plans that do not meet (``kernels/ahead``)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NoReturn, Protocol
from weakref import WeakValueDictionary

import numpy as np

from spmd_grid import kernels
from spmd_grid.errors import MismatchError, TransportError
from spmd_grid.exchange.agreement.frame_swap import swap_in_frame
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.kernels.ahead import slots as ahead_at
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import Communicator
from spmd_grid.transport.mismatch import mismatch
from spmd_grid.transport.wire import YIELDS_BETWEEN_NODES, Messages, Posting
from spmd_grid.watch.traffic import Activity

__all__ = ["AheadLines", "RunAhead", "make_ahead_lines"]

_LINE_BYTES = ahead_at.LINE_ARRAY + ahead_at.LINE_POST_BYTES
_COPIES_AT = ahead_at.LINES * _LINE_BYTES + 2 * 64  # after the lines and two words
_NUMBER = -2  # of the wire, beside those of the group's meetings


class SpanningMeeting(Protocol):
    """The part of a `CrossingMeeting` that is needed here."""

    comm: Communicator
    nodes: NodeMap
    state: np.ndarray

    @property
    def address(self) -> int:
        """The address of the state."""


class RunAhead(Protocol):
    """A plan's run, as reports need it."""

    @property
    def activity(self) -> Activity:
        """The run, as reports describe it."""

    def peers(self, outgoing: int) -> Sequence[int]:
        """The members that send it messages, or receive them from it."""


def make_ahead_lines(meeting: SpanningMeeting) -> AheadLines | None:
    """The lines; None where a node has no memory for them, alike on all members.  Collective."""
    comm, arena = meeting.comm, meeting.comm.process.arena
    n_bytes = _COPIES_AT + ahead_at.COPY_SLOTS * ahead_at.COPY_BYTES
    block = arena.allocate(n_bytes, zeroed=True) if comm.near else np.zeros(n_bytes, np.uint8)
    offset = -1 if block is None else max(arena.offset_of(kernels.address_of(block), n_bytes), 0)
    offsets = [struct.unpack("q", each)[0] for each in swap_in_frame(comm, struct.pack("q", offset))]
    if block is None or min(offsets) < 0:
        return None
    bases = {member: arena.base_of(comm.processes[member]) for member in comm.near}
    blocks = {member: base + offsets[member] for member, base in bases.items() if base is not None}
    return AheadLines(meeting, block, blocks | {comm.rank: kernels.address_of(block)})


class AheadLines:
    """The lines of this node's members for their runs, and the state of these; ``blocks``: addresses by member."""

    def __init__(self, meeting: SpanningMeeting, block: np.ndarray, blocks: dict[int, int]):
        self.comm = comm = meeting.comm
        self.near = sorted(blocks)
        self.meeting, self._block = meeting, block
        self.state = state = np.zeros(ahead_at.BLOCKS + len(blocks), np.int64)
        self.address = kernels.address_of(state)
        self.texts: dict[int, str] = {}  # of plans, by their keys
        self.runs: WeakValueDictionary[int, RunAhead] = WeakValueDictionary()  # by the addresses of their programs
        self._cut_off: list[object] = []  # the memory of messages that may still be on their way
        self._wire = wire = comm.wire(
            Messages([], [], []), self.near, self.near, _NUMBER, lambda: int(self.state[at.EPOCH]), None
        )
        wire.find_activity, wire.find_peers = self._activity, self._peers
        wire.digest = lambda: int(meeting.state[at.RAN_AHEAD])
        state[at.MEMBERS], state[at.MEMBER] = len(blocks), self.near.index(comm.rank)
        state[at.LINE_BYTES], state[ahead_at.BLOCKS :] = _LINE_BYTES, [blocks[member] for member in self.near]
        state[ahead_at.COPIES] = kernels.address_of(block) + _COPIES_AT
        state[at.ON_WAIT], state[at.WENT_ON] = wire.on_wait, kernels.address_of(wire.went_on)
        for word in (at.POLLS, at.YIELDS, at.YIELDS_AGAIN, at.SLEEPS):
            state[word] = meeting.state[word]
        state[ahead_at.TESTS] = YIELDS_BETWEEN_NODES
        state[ahead_at.SEGMENT], state[ahead_at.SEGMENT_BYTES] = (
            comm.process.arena.own_segment() if comm.near else (0, 0)
        )
        self._flag, posting = np.zeros(1, np.int64), wire.posting_of_its_own()
        assert posting is not None  # there are nodes
        self.posting: Posting = posting
        self._statuses = np.zeros(2 * comm.size * posting.status_bytes + 8, np.uint8)
        state[at.TEST_MESSAGES], state[at.FLAG] = wire.test, kernels.address_of(self._flag)
        state[at.STATUSES] = kernels.address_of(self._statuses)
        bits = (posting.most_tag + 1).bit_length() - 1  # of tags: a third of them for numbers
        state[ahead_at.NUMBERS], state[ahead_at.TAGS] = 1 << bits // 3, 1 << bits
        state[ahead_at.STATUS_TAG] = posting.status_tag

    def _current(self) -> RunAhead | None:
        return self.runs.get(int(self.state[ahead_at.PROGRAM]))

    def _activity(self) -> Activity | None:
        """The run of a compiled loop that waits; Python's own runs are known by themselves."""
        run = self._current()
        return run.activity if run is not None and self.meeting.state[at.IN_USE] else None

    def _peers(self, outgoing: int) -> Sequence[int]:
        run = self._current()
        return [] if run is None else run.peers(outgoing)

    def segment_of(self, member: int) -> int:
        """The address to which offsets that a member of the node posts are relative."""
        return self.comm.process.arena.base_of(self.comm.processes[member]) or 0

    def allocate(self, n_bytes: int) -> tuple[np.ndarray, dict[int, int]] | None:
        """Memory that the others of the node see, and the addresses of theirs, by member; None if any member gets none.

        Collective.
        """
        comm, arena, memory, offset = self.comm, self.comm.process.arena, np.empty(0, np.uint8), 0
        if n_bytes and len(self.near) > 1:
            found = arena.allocate(n_bytes)
            offset = -1 if found is None else arena.offset_of(kernels.address_of(found), n_bytes)
            memory = memory if found is None else found
        elif n_bytes:
            memory = np.empty(n_bytes, np.uint8)
        offsets = [struct.unpack("q", each)[0] for each in swap_in_frame(comm, struct.pack("q", offset))]
        if min(offsets) < 0:
            return None
        addresses = {member: self.segment_of(member) + offsets[member] for member in self.near}
        return memory, addresses | {comm.rank: kernels.address_of(memory)}

    def reserve(self, n_messages: int) -> None:
        """Makes it possible to test ``n_messages`` at once.  Local."""
        n_bytes = n_messages * self.posting.status_bytes + 8
        if n_bytes > self._statuses.nbytes:
            self._statuses = np.zeros(n_bytes, np.uint8)
            self.state[at.STATUSES] = kernels.address_of(self._statuses)

    def text(self, key: int) -> str:
        """The plan of this key."""
        return self.texts.get(key, "a plan that this process has not made")

    def describe_last(self) -> str:
        """The runs so far, for the table of a mismatch."""
        number = int(self.state[at.EPOCH])
        if not number:
            return " after no run of a plan"
        last = self.text(int(self.state[ahead_at.KEYS + number % ahead_at.LINES]))
        return f" after {number} runs of plans, the last of them {last}"

    def raise_for(self, code: int, memory: object) -> NoReturn:
        """Raise the error with which compiled code has ended a run, whose messages use ``memory``."""
        self._cut_off.append(memory)
        if code == at.ANOTHER_RUN:
            raise self._mismatch()
        self._wire.raise_error()
        self.comm.process.gate.check()
        error = TransportError("a message to or from another node failed")
        error.cuts_off = True
        raise error

    def _run_of(self, tag: int) -> tuple[int, int]:
        """The number and the key of another member's run, as far as its tag says them: the nearest number."""
        own, numbers = int(self.state[at.EPOCH]), int(self.state[ahead_at.NUMBERS])
        keys = int(self.state[ahead_at.TAGS]) // numbers
        number = own + (tag - own + numbers // 2) % numbers - numbers // 2
        return number, next((key for key in self.texts if key % keys == tag // numbers), 0)

    def _mismatch(self) -> MismatchError:
        number, key, who = (int(word) for word in self.state[ahead_at.OTHER : ahead_at.OTHER + 3])
        other = self.comm.processes[who if who >= 0 else self.near[-1 - who]]
        own = int(self.state[at.EPOCH])
        seen = min(own, number) if who < 0 else own  # lines are compared some runs later
        if who >= 0:
            number, key = self._run_of(number)
        mine = self.text(int(self.state[ahead_at.KEYS + seen % ahead_at.LINES]))
        error = mismatch(
            [
                f"{self.comm.process.label()}: {mine}, run {seen} of plans in this group",
                f"rank {other}: {self.text(key)}, run {number}",
            ]
        )
        error.cuts_off = True
        return error
