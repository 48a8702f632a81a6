"""Boxes that all members of the other nodes need: each crosses once to each node, and is shared there.

The boxes of a node's members, one after the other, are cut into lanes.  The carrier of a lane sends it to the carriers
of the same lane on other nodes, out of a near member's memory where it can be read.  These receive it in their stages,
from where all members of the node copy it.  It goes in rounds: while a round is copied, the next one travels.  Boxes of
one node alone pass from node to node in a chain, so that no node sends more than one copy; boxes of all nodes are sent
to all other nodes directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.exchange.nodes.stage import Stage
from spmd_grid.exchange.transfer.flat_bytes import flat_bytes
from spmd_grid.links.sizes import CROSSING_ROUND_BYTES, CROSSING_ROUNDS
from spmd_grid.transport.communicator import tag_of

__all__ = ["Crossing"]

_TAG = tag_of("blocking movements")


class _Part(NamedTuple):
    """Cells ``start`` to ``stop`` of the box of ``source``, at the cell ``offset`` of a half of a carrier's stage."""

    source: int
    start: int
    stop: int
    lane: int
    offset: int


class Crossing:
    """The crossing of boxes of ``counts[i]`` cells of each member i (0: none), alike on all members.

    ``readable[i]``: whether the members of its node can read the box of member i as a run of its array.
    """

    def __init__(self, stage: Stage, counts: Sequence[int], dtype: np.dtype, readable: Sequence[bool]):
        self._stage, self._dtype, self._counts, self._readable = stage, dtype, counts, readable
        nodes = stage.nodes
        self._totals = [sum(counts[member] for member in members) for members in nodes.nodes]
        self._sources = [node for node, total in enumerate(self._totals) if total]
        self._half = stage.n_bytes // 2 // dtype.itemsize

    @property
    def _is_chain(self) -> bool:
        """Whether the boxes of one node pass from node to node."""
        return len(self._sources) == 1

    def _before(self, node: int, source: int) -> int:
        """The node that sends the cells of node ``source`` to ``node``."""
        if not self._is_chain:
            return source
        return (node - 1) % len(self._totals)

    @cached_property
    def rounds(self) -> int:
        """Number of rounds: what any member receives in one fits into half of its stage."""
        nodes = self._stage.nodes
        most = 0
        for node, members in enumerate(nodes.nodes):
            for member in members:
                cells = 0
                for source in self._sources:
                    if source != node:
                        for lane in nodes.lanes_of(member):
                            first, last = self._lane(source, lane)
                            cells += last - first
                most = max(most, cells)
        if not most:
            return 0
        fits = max(1, self._half - nodes.lanes * len(self._sources))  # rounding may add a cell per lane and node
        wanted = min(CROSSING_ROUNDS, most * self._dtype.itemsize // CROSSING_ROUND_BYTES)
        return max(-(-most // fits), wanted, 1)

    def _lane(self, source: int, lane: int) -> tuple[int, int]:
        """The first cell and the end of a lane among the cells of node ``source``."""
        total, lanes = self._totals[source], self._stage.nodes.lanes
        return total * lane // lanes, total * (lane + 1) // lanes

    def _arrivals(self, member: int, turn: int) -> Iterator[_Part]:
        """The parts that ``member`` receives in a round."""
        nodes, offset = self._stage.nodes, 0
        for source in self._sources:
            if source == nodes.node_of[member]:
                continue
            for lane in nodes.lanes_of(member):
                for owner, start, stop in self._parts(source, lane, turn):
                    yield _Part(owner, start, stop, lane, offset)
                    offset += stop - start

    def _parts(self, source: int, lane: int, turn: int) -> Iterator[tuple[int, int, int]]:
        """Member, start and stop of the cells of node ``source`` that a lane carries in a round."""
        first, last = self._lane(source, lane)
        start = first + (last - first) * turn // self.rounds
        stop = first + (last - first) * (turn + 1) // self.rounds
        at = 0
        for member in self._stage.nodes.nodes[source]:
            low, high = max(start, at), min(stop, at + self._counts[member])
            if low < high:
                yield member, low - at, high - at
            at += self._counts[member]

    def _sender(self, part: _Part, node: int) -> int:
        """The member that sends a part to ``node``."""
        nodes = self._stage.nodes
        source = nodes.node_of[part.source]
        before = self._before(node, source)
        if before == source and not self._readable[part.source]:
            return part.source
        return nodes.carrier(before, part.lane)

    def run(
        self,
        cells_of: Callable[[int], np.ndarray],
        put: Callable[[int, int, np.ndarray], None],
        meanwhile: Callable[[], None],
    ) -> None:
        """Runs the crossing, and ``meanwhile()`` while the first round travels.  Collective.

        ``cells_of(member)``: the flat cells of the box of this member, or of a near one that is readable.
        ``put(member, start, cells)`` copies cells of the box of ``member``, from its cell ``start`` on, to the
        result.
        """
        comm, stage = self._stage.comm, self._stage
        posted: dict[int, tuple[list[Any], list[Any]]] = {}
        forwarded: list[Any] = []
        for turn in range(min(2, self.rounds)):
            posted[turn] = self._post(turn, cells_of)
        meanwhile()
        for turn in range(self.rounds):
            receives, sends = posted.pop(turn)
            comm.wait_all(receives)
            comm.wait_all(forwarded)  # of the round before: its half is used again
            forwarded = self._forward(turn)
            stage.together()
            if turn and turn + 1 < self.rounds:
                posted[turn + 1] = self._post(turn + 1, cells_of)
            for member in stage.nodes.nodes[stage.node]:
                for part in self._arrivals(member, turn):
                    put(part.source, part.start, self._staged(member, part, turn))
            comm.wait_all(sends)
        comm.wait_all(forwarded)
        stage.together()

    def _staged(self, member: int, part: _Part, turn: int) -> np.ndarray:
        start = (self._half * (turn & 1) + part.offset) * self._dtype.itemsize
        return self._stage.cells(member, start, part.stop - part.start, self._dtype)

    def _post(self, turn: int, cells_of: Callable[[int], np.ndarray]) -> tuple[list[Any], list[Any]]:
        """Starts the messages of a round: requests of receives and of sends."""
        comm, me, own = self._stage.comm, self._stage.comm.rank, self._stage.node
        receives, sends = [], []
        for part in self._arrivals(me, turn):
            receives += comm.irecv(flat_bytes(self._staged(me, part, turn)), self._sender(part, own), _TAG)
        for member, part in self._departures(turn):
            sends += comm.isend(flat_bytes(cells_of(part.source)[part.start : part.stop]), member, _TAG)
        return receives, sends

    def _departures(self, turn: int) -> Iterator[tuple[int, _Part]]:
        """The parts of this node's members that this one sends in a round, and to whom."""
        nodes, own = self._stage.nodes, self._stage.node
        if not self._totals[own]:
            return
        for node in range(len(nodes.nodes)):
            if node == own or self._before(node, own) != own:
                continue
            for lane in range(nodes.lanes):
                for owner, start, stop in self._parts(own, lane, turn):
                    part = _Part(owner, start, stop, lane, 0)
                    if self._sender(part, node) == self._stage.comm.rank:
                        yield nodes.carrier(node, lane), part

    def _forward(self, turn: int) -> list[Any]:
        """Starts to send on what has arrived in a round, in a chain of nodes."""
        nodes, own, me = self._stage.nodes, self._stage.node, self._stage.comm.rank
        after = (own + 1) % len(nodes.nodes)
        if not self._is_chain or own == self._sources[0] or after == self._sources[0]:
            return []
        requests = []
        for part in self._arrivals(me, turn):
            to = nodes.carrier(after, part.lane)
            requests += self._stage.comm.isend(flat_bytes(self._staged(me, part, turn)), to, _TAG)
        return requests

    @property
    def sent(self) -> dict[int, int]:
        """Bytes that this member sends to each member.  Local."""
        nodes, own, me = self._stage.nodes, self._stage.node, self._stage.comm.rank
        found: dict[int, int] = {}
        after = (own + 1) % len(nodes.nodes)
        forwards = self._is_chain and own != self._sources[0] and after != self._sources[0]
        for turn in range(self.rounds):
            parts = list(self._departures(turn))
            if forwards:
                parts += [(nodes.carrier(after, part.lane), part) for part in self._arrivals(me, turn)]
            for member, part in parts:
                found[member] = found.get(member, 0) + (part.stop - part.start) * self._dtype.itemsize
        return found
