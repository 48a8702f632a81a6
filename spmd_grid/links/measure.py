"""The measurement of a model of links: a ladder of short exchanges between all nodes at once.

Every process sends to its partner on the next node, and receives from that on the node before, so that all cables carry
bytes both ways, as in most operations.  One process of each node does so, then all of them: together they show what a
cable carries.  Where processors are the limit, bytes that all go one way pass faster: every other node sends to the
next one, which says by what factor, of one process and of all.  Nodes may differ, so that bytes are faster one way than
back: of one process the slower way counts; all send to the next node, as what spreads from a root on the first one.
These five take turns, twice, between measurements of memory (`links/measure_memory.py`); the shorter time counts, since
whatever disturbs them only adds time.  Sizes grow until an exchange takes long enough to be timed, or has the size of
the messages of operations.

Latencies are those of a process that polls, as compiled meetings do.  What a few bytes take beyond that where processes
wait as they do for many bytes are the model's `wake_seconds`: processes that share a processor sleep between polls.
What a message keeps its process busy is measured while all processes send several in a row: they may share a processor
or the network's adapter.

Exchanges of many bytes begin with a meeting each, as operations do: processes wait for the last one, and cables stand
still meanwhile.  The members of a node wait for one another, one of them exchanges their frames with the next node,
and the others wait for it.

Processes that take no part sleep meanwhile: on a full node they would take the processors from those that do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from time import sleep
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.links.known import machine_of
from spmd_grid.links.measure_memory import MemoryTimes
from spmd_grid.links.model import LinkModel
from spmd_grid.links.team import Team
from spmd_grid.transport.communicator import FRAME_BYTES, Communicator, tag_of

__all__ = ["measure_links"]

_TAG = tag_of("blocking movements")

_SMALL, _LEAST, _MOST = 8, 1 << 15, 1 << 19  # bytes of messages
_LONG_ENOUGH = 0.01  # seconds of an exchange; twice as long are several in a row, since buffers take the first at once
_IN_A_ROW, _BATCHES, _BATCH_SECONDS = 16, 7, 0.005  # of exchanges of a few bytes
_LEAST_ROUNDS, _MOST_ROUNDS = 8, 20  # of such a batch
_SPANS, _BATCHES_OF_SPAN = 2, 3  # of exchanges of many bytes, between measurements of memory
_BOTH, _FORTH, _BACK = 0, 1, -1  # ways: all nodes send; of two nodes, the first sends to the next; that sends back
_IN_FLIGHT = 2  # messages of many bytes at a time, as operations have them
# By what factors bytes may be faster that go one way: as many of them again are handled where they go both ways, which
# one process does all by itself; the processes of a node make way for one another besides.
_BOTH_WAYS_AT_MOST, _OF_PROCESS_AT_MOST = 4.0, 2.0


def measure_links(comm: Communicator, near: Sequence[int], nodes: Sequence[int]) -> LinkModel:
    """The model of the links between the members of ``comm``.

    Collective; the same on all members.  ``near``: by member, a number of its node; ``nodes``: the same by process.
    """
    team = Team(comm, near)
    memory = MemoryTimes(team)
    memory.measure()
    far = _Far(LinkModel.network_latency, LinkModel.network_bandwidth, LinkModel.message_seconds, None, 0.0, 1.0, 1.0)
    crossings = _Crossings(team) if team.n_nodes > 1 else None
    for _ in range(_SPANS):
        if crossings is not None:
            crossings.exchange()
        memory.measure()
    if crossings is not None:
        far = crossings.far()
    found = memory.memory()
    model = LinkModel(
        node_latency=found.latency,
        step_seconds=found.step,
        node_bandwidth=found.bandwidth,
        network_latency=far.latency,
        network_bandwidth=far.bandwidth,
        memory_bandwidth=found.memory_bandwidth,
        copies=found.copies,
        alone_copies=found.alone,
        run_copies=found.in_runs,
        alone_run_copies=found.alone_in_runs,
        message_seconds=far.message_seconds,
        call_seconds=found.call_seconds,
        wake_seconds=far.wake_seconds,
        cable_bandwidth=far.cable,
        one_way=far.one_way,
        process_one_way=far.process_one_way,
        own_cores=comm.times_well,
        bus_bandwidth=found.bus,
        nodes=tuple(nodes),
        machine=machine_of(comm, near),
    )
    team.close()
    return model


class _Far(NamedTuple):
    """The pace of a process that sends to another node; the cable of all of a node, and the factors of one way."""

    latency: float
    bandwidth: float
    message_seconds: float
    cable: float | None
    wake_seconds: float
    one_way: float
    process_one_way: float


class _Crossings:
    """The exchanges of a team between its nodes."""

    def __init__(self, team: Team):
        self._team, self._comm = team, team.comm
        self._waited = self._small(1)
        self._latency = self._small(1, idle_seconds=self._waited, polls=True)
        self._waited = self._small(1, idle_seconds=self._waited)
        self._row = self._small(team.most, _IN_A_ROW)
        self._meeting = self._short_pace_of(self._meet)
        size = self._size()
        least = max(_LEAST, size // team.most)  # of each message where all send
        patterns = [(1, size, way) for way in (_BOTH, _FORTH, _BACK)] + [
            (team.most, least, way) for way in (_BOTH, _FORTH)
        ]
        self._bytes = [_IN_FLIGHT * n_bytes for _, n_bytes, _ in patterns]
        self._calls = [self._exchange(*pattern) for pattern in patterns]
        for call in self._calls:
            call()  # connects
        self._rounds = [ceil(2 * _LONG_ENOUGH / team.pace_of(call, 2, 1)) for call in self._calls]
        self._found: list[list[float]] = []

    def exchange(self) -> None:
        """Times the exchanges of many bytes once more.  Collective."""
        self._found.append(self._team.paces_of(self._calls, self._rounds, _BATCHES_OF_SPAN))

    def far(self) -> _Far:
        """The network between the nodes, by all times found.  Local."""
        rest, team = self._waited + self._meeting, self._team
        one, forth, back, together, alone = [
            n_bytes / max(seconds - rest, seconds / 2)
            for n_bytes, seconds in zip(self._bytes, np.min(self._found, axis=0).tolist(), strict=True)
        ]
        return _Far(
            self._latency,
            one,
            max(self._row - self._waited, 1e-8) / (_IN_A_ROW - 1),
            max(one, team.least * together),
            max(self._waited - self._latency, 0.0),
            min(max(alone / together, 1.0), _BOTH_WAYS_AT_MOST),
            min(max(min(forth, back) / one, 1.0), _OF_PROCESS_AT_MOST),
        )

    def _size(self) -> int:
        """The bytes of messages that take one process of each node long enough."""
        size, seconds = _LEAST, self._team.pace_of(self._exchange(1, _LEAST), 2, 3)
        while seconds < _LONG_ENOUGH and size < _MOST:
            size = min(_MOST, size * max(2, int(_LONG_ENOUGH / seconds)))
            seconds = self._team.pace_of(self._exchange(1, size), 2, 3)
        return size

    def _meet(self) -> None:
        """A meeting of all members, as operations between nodes begin."""
        team = self._team
        if not team.meets_in_memory:
            self._comm.swap_frames()
            return
        team.together()
        frames = np.zeros((2, FRAME_BYTES * team.most), np.uint8)
        self._poll(self._shift(1, frames[0], frames[1:]))
        team.together()

    def _poll(self, requests: Sequence[Any]) -> None:
        """Waits without a pause; on simulated ranks, which take turns, as otherwise."""
        while not self._comm.shares_objects and not self._comm.test_all(requests):
            pass
        self._comm.wait_all(requests)

    def _small(self, n_members: int, n: int = 1, idle_seconds: float = 0.0, polls: bool = False) -> float:
        """Seconds in which ``n_members`` members of each node send ``n`` small messages each to the next node.

        ``idle_seconds``: how long the others sleep in the meantime.  ``polls``: whether they wait without a pause.
        """
        wait = self._poll if polls else self._comm.wait_all
        sent, received = np.ones(_SMALL, np.uint8), np.empty((n, _SMALL), np.uint8)
        takes_part = self._team.position < n_members

        def shift() -> None:
            if not takes_part and idle_seconds:
                sleep(idle_seconds)
            wait(self._shift(n_members, sent, received))

        shift()  # connects
        return self._short_pace_of(shift, takes_part)

    def _short_pace_of(self, call: Callable[[], None], counts: bool = True) -> float:
        """Seconds of a call that passes a few bytes; ``counts``: whether this process's time does."""
        rounds = ceil(_BATCH_SECONDS / self._team.pace_of(call, 2, 1))
        return self._team.pace_of(call, min(max(rounds, _LEAST_ROUNDS), _MOST_ROUNDS), _BATCHES, counts)

    def _exchange(self, n_members: int, size: int, way: int = _BOTH) -> Callable[[], None]:
        """A meeting, and then ``n_members`` members of each node send messages of ``size`` bytes to another one."""
        sent, received = np.ones(size, np.uint8), np.empty((_IN_FLIGHT, size), np.uint8)

        def run() -> None:
            self._meet()
            self._comm.wait_all(self._shift(n_members, sent, received, way))

        return run

    def _shift(self, n_members: int, sent: np.ndarray, received: np.ndarray, way: int = _BOTH) -> list[Any]:
        """Starts to send ``sent`` to the next node, once for each row that is ``received``.

        ``way``: of _FORTH and _BACK, in which nodes by twos only send or only receive.
        """
        team, requests = self._team, []
        is_first, has_mate = team.node % 2 == 0, team.node | 1 < team.n_nodes
        sends, receives = (way == _BOTH or (has_mate and is_first == (way == each)) for each in (_FORTH, _BACK))
        to, whence = (team.next, team.previous) if way != _BACK else (team.previous, team.next)
        if team.position < n_members and whence is not None and receives:
            for row in received:
                requests += self._comm.irecv(row, whence, _TAG)
        if team.position < n_members and to is not None and sends:
            for _ in received:
                requests += self._comm.isend(sent, to, _TAG)
        return requests
