"""Meetings of groups that span nodes, in lines that cross once between each pair of nodes.

For each pair of nodes one member of either, its *carrier*, sends the lines of its node to the other one in a message,
and receives theirs (``kernels/protocol/carrying.py``).  With two nodes of two members:

    0 --\\                   /--> 2
         meet -> 1 <=> 2 -> all
    1 --/                   \\--> 3      and the same the other way, at the same time

Where each member has a core of its own, and nodes have as many members, each carries its own line::

    0 -> <=> 2 -> all
    1 -> <=> 3 -> all

Members of a node read one another's larger arrays; other messages carry them to other nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.ahead_lines import AheadLines, make_ahead_lines
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.agreement.learn_facts import swap_texts
from spmd_grid.exchange.agreement.line_meeting import LineMeeting
from spmd_grid.exchange.agreement.meeting import array_in_frame
from spmd_grid.exchange.agreement.node_meeting import MEETING_LINE_BYTES, NodeMeeting, read_locations
from spmd_grid.exchange.nodes.direct import goes_direct
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.links.sizes import MOST_CARRIED, most_in_lines
from spmd_grid.transport.communicator import INLINE_BYTES, Communicator, Frames, tag_of
from spmd_grid.transport.mismatch import mismatch
from spmd_grid.transport.wire import YIELDS_BETWEEN_NODES
from spmd_grid.watch.call_site import call_site

__all__ = ["CrossingMeeting", "carried_memory", "each_carries", "lines_cross_once"]

_MIRROR_BYTES = 2 * MEETING_LINE_BYTES
_WORD_BYTES = 8

# A process that shares its core polls before it sleeps: the one that carries some milliseconds, in which the others of
# its node sleep.
_POLLS, _SPINS = 20, 10_000

_NUMBER = -1  # of the wire, beside that of the node's own meeting


def lines_cross_once(nodes: NodeMap) -> bool:
    """Whether no member has many messages to carry, if there is one for each pair of nodes.  Local."""
    return 1 < len(nodes.nodes) <= 1 + MOST_CARRIED * min(map(len, nodes.nodes))


def each_carries(comm: Communicator, nodes: NodeMap) -> bool:
    """Whether each member carries its own line, to the member of the same number on each other node.  Local."""
    return goes_direct(comm) and len(set(map(len, nodes.nodes))) == 1


def carried_memory(nodes: NodeMap, member: int, own: bool) -> int:
    """The bytes in which ``member`` keeps what it carries for its node: the mirrors of other nodes' blocks.  Local.

    ``own``: whether `each_carries`.
    """
    return _MIRROR_BYTES * sum(len(each.members) for each in _carried(nodes, member, own))


def _carrier(nodes: NodeMap, node: int, other: int) -> int:
    """The member of ``node`` that carries what goes to and comes from node ``other``."""
    members = nodes.nodes[node]
    return members[other % len(members)]


class _Carried(NamedTuple):
    """The lines of ``members`` of another node, which ``peer`` carries."""

    peer: int
    members: tuple[int, ...]


def _carried(nodes: NodeMap, member: int, own: bool) -> list[_Carried]:
    """The lines that ``member`` receives for its node."""
    here = nodes.node_of[member]
    others = [node for node in range(len(nodes.nodes)) if node != here]
    if own:
        number = nodes.nodes[here].index(member)
        return [_Carried(nodes.nodes[node][number], nodes.nodes[node][number : number + 1]) for node in others]
    return [
        _Carried(_carrier(nodes, node, here), nodes.nodes[node])
        for node in others
        if _carrier(nodes, here, node) == member
    ]


class CrossingMeeting(LineMeeting):
    """A meeting of a group in which only some members see one another's memory.

    ``near``: the meeting of this node's members, and by member their blocks (``blocks``) and the addresses of their
    `carried_memory` (``memories``); ``memory``: this member's.  ``own``: whether `each_carries`.
    """

    nodes: NodeMap

    def __init__(
        self,
        near: NodeMeeting,
        blocks: Mapping[int, int],
        nodes: NodeMap,
        memory: np.ndarray,
        memories: Mapping[int, int],
        own: bool,
    ):
        comm = near.comm
        mirrors = _mirrors(nodes, nodes.node_of[comm.rank], memories, own)
        blocks = {**blocks, **mirrors}
        super().__init__(comm, range(comm.size), near.block, [blocks[member] for member in range(comm.size)], _NUMBER)
        self._near, self._mirrors, self._memory, self.nodes = near, mirrors, memory, nodes
        self._ahead: AheadLines | None = None
        self._wire.meets = True  # each wait ends once all members have come
        self.state[at.SPANS] = 1
        self._kept: list[np.ndarray] = []
        if comm.times_well:
            self.state[at.YIELDS] = self.state[at.YIELDS_AGAIN] = YIELDS_BETWEEN_NODES
        else:
            self.sleep_after(_POLLS, 0)
            near.sleep_after(_POLLS, 0)
        carried = _carried(nodes, comm.rank, own)
        if carried:
            sent = [comm.rank] if own else list(nodes.nodes[nodes.node_of[comm.rank]])
            self.state[at.CARRIER] = self._carrier_words(carried, [blocks[member] for member in sent])

    def _carrier_words(self, carried: Sequence[_Carried], own_blocks: Sequence[int]) -> int:
        """The address of the words with which this member carries the lines in ``own_blocks``, and others here."""
        posting = self._wire.posting(tag_of("lines of meetings"))
        assert posting is not None  # there are nodes
        rows = np.zeros((len(carried), at.NODE_WORDS), np.int64)
        for row, each in zip(rows, carried, strict=True):
            size = _message_bytes(len(each.members), self.line_bytes)
            row[at.NODE_PEER] = each.peer
            row[at.NODE_INBOX], row[at.NODE_INBOX_BYTES] = self._words(size), size
            row[at.NODE_MEMBERS] = len(each.members)
            row[at.NODE_MIRRORS] = self._keep([self._mirrors[member] for member in each.members])
        words = np.zeros(at.CARRIER_WORDS, np.int64)
        words[at.NEAR], words[at.NEAR_BLOCKS] = len(own_blocks), self._keep(own_blocks)
        words[at.OUTGOING] = self._words(_message_bytes(len(own_blocks), self.line_bytes))
        words[at.NODES], words[at.NODE_ROWS] = len(carried), self._keep(rows)
        words[at.HANDLES] = self._words(2 * len(carried) * posting.handle_bytes)
        words[at.HANDLE_BYTES], words[at.SPINS] = posting.handle_bytes, _SPINS
        words[at.ISEND], words[at.IRECV] = posting.isend, posting.irecv
        words[at.DATATYPE], words[at.COMMUNICATOR], words[at.TAG] = posting.datatype, posting.comm, posting.tag
        state = self.state
        state[at.TEST_MESSAGES], state[at.FLAG] = self._wire.test, self._words(_WORD_BYTES)
        state[at.STATUSES] = self._words(2 * len(carried) * posting.status_bytes)
        return self._keep(words)

    def _keep(self, words: Sequence[int] | np.ndarray) -> int:
        """Keep words for compiled code, and return their address."""
        self._kept.append(np.array(words, np.int64))
        return kernels.address_of(self._kept[-1])

    def _words(self, n_bytes: int) -> int:
        return self._keep(np.zeros(-(-n_bytes // _WORD_BYTES), np.int64))

    @property
    def line_bytes(self) -> int:  # type: ignore[override]  # fewer in large groups
        return max(INLINE_BYTES, most_in_lines(self.comm.size))

    carried_bytes = line_bytes

    def ahead_lines(self) -> AheadLines | None:
        """The lines of runs that do not meet; None where a node has no memory for them.  Collective until made."""
        if self._ahead is None:
            self._ahead = make_ahead_lines(self)
        return self._ahead

    def _raise_ended(self) -> NoReturn:
        if self.state[at.DIFFERS] and self._ahead is not None:
            activity = self.comm.process.activity
            doing = "a meeting" if activity is None else activity.describe()
            mine = f"{self.comm.process.label()}: {doing}{self._ahead.describe_last()}, at {call_site()}"
            error = mismatch([text.decode() for text in swap_texts(self.comm, mine.encode())])
            error.cuts_off = True
            raise error
        super()._raise_ended()

    def depart(self, frames: Frames, readers: np.ndarray | None = None) -> None:
        self._near.state[at.EPOCH] = self.state[at.EPOCH]
        self._near.depart(frames)  # members of other nodes read by messages

    def together(self) -> None:
        self._near.together()

    def arrays(self, frames: Frames, facts: Sequence[Facts]) -> list[np.ndarray | None] | None:
        """As of any meeting: arrays in lines, and those that near members let others read; None for this member."""
        found: list[np.ndarray | None] = []
        for member, (fact, location) in enumerate(zip(facts, read_locations(frames.locations), strict=True)):
            offset = location[at.LOCATION_OFFSET]
            if fact.shape is None or member == self.comm.rank:
                found.append(None)
            elif fact.fits_inline:
                found.append(array_in_frame(frames.data, member, fact))
            elif offset < 0 or (member in self._mirrors and fact.nbytes > self.line_bytes):
                found.append(None)
            elif member in self._mirrors:
                shape, dtype = fact.array()
                memory = kernels.bytes_at(self._mirrors[member] + offset, fact.nbytes)
                found.append(memory.view(dtype).reshape(shape))
            else:
                found.append(self._array_at(member, fact, location))
        return found


def _mirrors(nodes: NodeMap, here: int, memories: Mapping[int, int], own: bool) -> dict[int, int]:
    """The addresses of the mirrors of all members of other nodes."""
    found: dict[int, int] = {}
    for carrier in nodes.nodes[here]:
        start = memories[carrier]
        for each in _carried(nodes, carrier, own):
            for member in each.members:
                found[member] = start
                start += _MIRROR_BYTES
    return found


def _message_bytes(n_members: int, line_bytes: int) -> int:
    """The size of the largest message from a node."""
    bodies = n_members * (line_bytes + at.BODY_ALIGNED)
    return n_members * at.HEAD_WORDS * _WORD_BYTES + bodies
