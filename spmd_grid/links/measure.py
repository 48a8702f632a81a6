"""The measurement of a model of links: a ladder of short exchanges between all nodes at once.

Every process sends to its partner on the next node, and receives from that on the node before, so that all cables carry
bytes both ways, as in most operations.  First one process of each node does so, then all of them: together they show
what a cable carries.  Sizes grow until an exchange takes long enough to be timed.  Within nodes, processes read one
another's memory, first one process of each node, then all.

Latencies are those of a process that polls, as compiled meetings do.  What a few bytes take beyond that where processes
wait as they do for many bytes are the model's `wake_seconds`: processes that share a processor sleep between polls.

Exchanges of many bytes begin with a meeting each, as operations do: processes wait for the last one, and cables stand
still meanwhile.  The members of a node wait for one another, one of them exchanges their frames with the next node,
and the others wait for it.  Where processors are the limit, bytes that all go one way pass faster: every other node
sends to the next one, which says by what factor.

The lower quartile of a few batches counts, since other work on the machine only adds time, and all processes take that
of the slowest.  Processes that take no part sleep meanwhile: on a full node they would take the processors from those
that do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from time import perf_counter, sleep
from typing import Any

import numpy as np

from spmd_grid import kernels
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.links.machine import machine_of
from spmd_grid.links.model import LinkModel
from spmd_grid.transport.communicator import FRAME_BYTES, Communicator, tag_of

__all__ = ["measure_links"]

_TAG = tag_of("blocking movements")

_SMALL, _LEAST, _MOST = 8, 1 << 16, 1 << 23  # bytes of messages
_LONG_ENOUGH = 0.01  # seconds of an exchange
_SMALL_ROUNDS, _LARGE_ROUNDS, _IN_A_ROW = 20, 2, 16
_ROLL_CALLS, _ROLL_BATCHES, _POLLS, _FOREVER = 20, 20, 20, 1 << 40
_COPY_BYTES, _LINE_BYTES = 1 << 21, 64
_PYTHON_CALLS = 1000  # of a small function: they take as long as the Python code of an operation


def measure_links(comm: Communicator, near: Sequence[int], nodes: Sequence[int]) -> LinkModel:
    """The model of the links between the members of ``comm``.

    Collective; the same on all members.  ``near``: by member, a number of its node; ``nodes``: the same by process.
    """
    bench = _Bench(comm, near)
    memory, bus = bench.copies()
    latency, bandwidth, together = bench.near(memory)
    far_latency, far_bandwidth, cable, wake, one_way = bench.far()
    model = LinkModel(
        node_latency=latency,
        node_bandwidth=bandwidth,
        network_latency=far_latency or 2e-6,
        network_bandwidth=far_bandwidth or 12.5e9,
        memory_bandwidth=memory,
        message_seconds=bench.in_a_row(far_latency),
        call_seconds=bench.code(),
        wake_seconds=wake,
        cable_bandwidth=cable or None,
        one_way=one_way,
        relays=comm.times_well,
        bus_bandwidth=min(together, bus),
        nodes=tuple(nodes),
        machine=machine_of(comm, near),
    )
    bench.close()
    return model


def _same(number: int) -> int:
    return number


class _Word:
    """A word in memory that another process writes, as something to wait for."""

    def __init__(self, word: np.ndarray, turn: int):
        self._word, self._turn = word, turn

    def Test(self) -> bool:
        """Whether it has been written as often as that."""
        return bool(self._word[0] >= self._turn)


class _Bench:
    """One member of ``comm``, and those with which it exchanges."""

    def __init__(self, comm: Communicator, near: Sequence[int]):
        self._comm = comm
        by_node: dict[int, list[int]] = {}
        for member, node in enumerate(near):
            by_node.setdefault(node, []).append(member)
        members = list(by_node.values())
        self.n_nodes = len(members)
        self._own = own = next(i for i, found in enumerate(members) if comm.rank in found)
        self._one_way = False  # whether nodes only send or only receive
        self._mates = members[own]
        self._position = self._mates.index(comm.rank)
        after, before = members[(own + 1) % self.n_nodes], members[own - 1]
        # Nodes of other sizes are met as far as they go: messages number k go from place k to place k.
        self._next = after[self._position] if self._position < len(after) else None
        self._previous = before[self._position] if self._position < len(before) else None
        self._most = max(map(len, members))
        self._least = min(map(len, members))
        self._turn = 0  # of the node's meetings so far
        self._memory = comm.process.arena.allocate(_COPY_BYTES + _LINE_BYTES, zeroed=True)
        self._seen = self._memory_of_mates()
        self._roll: np.ndarray | None = None

    def _memory_of_mates(self) -> list[np.ndarray]:
        """The memory of all members of the node; empty where any member cannot see that of all.  Collective."""
        arena, mine = self._comm.process.arena, self._memory
        offset = -1 if mine is None else arena.offset_of(mine.ctypes.data, mine.nbytes)
        offsets = self._all(float(offset))
        bases = [arena.base_of(self._comm.processes[mate]) for mate in self._mates]
        sees = self._most > 1 and offsets.min() >= 0 and None not in bases
        if self._slowest(float(not sees)):
            return []
        addresses = [
            base + int(offsets[mate]) for mate, base in zip(self._mates, bases, strict=True) if base is not None
        ]
        kind = ctypes.c_uint8 * (_COPY_BYTES + _LINE_BYTES)
        return [np.ctypeslib.as_array(kind.from_address(address)) for address in addresses]

    @property
    def meets_in_memory(self) -> bool:
        """Whether the members of nodes meet in memory before and after their frames cross."""
        return bool(self._seen) and not self._comm.shares_objects

    def close(self) -> None:
        """Returns once no process reads memory that is given back.  Collective."""
        self._comm.barrier()

    # -- what all members learn --------------------------------------------------------------------------------------

    def _all(self, value: float) -> np.ndarray:
        received = np.empty(8 * self._comm.size, np.uint8)
        self._comm.all_gather(np.array([value]).view(np.uint8), received, [8] * self._comm.size)
        return received.view(np.float64)

    def _slowest(self, value: float) -> float:
        return float(self._all(value).max())

    def pace_of(self, call: Callable[[], object], rounds: int, batches: int = 5, counts: bool = True) -> float:
        """Seconds of a collective call when it is made again and again: the lower quartile of several batches.

        Members run ahead of one another by part of a call, so a single call says little.  ``counts``: whether this
        process's time counts, and not the others' alone.
        """
        means = []
        for _ in range(batches):
            self._comm.barrier()
            began = perf_counter()
            for _ in range(rounds):
                call()
            means.append((perf_counter() - began) / rounds)
        return self._slowest(sorted(means)[len(means) // 4] if counts else 0.0)

    # -- between nodes -----------------------------------------------------------------------------------------------

    def far(self) -> tuple[float, float, float, float, float]:
        """Latency and bandwidth of a process that sends to another node, a node's bandwidth, and two more.

        They are the seconds that a process which waited takes to go on, and the factor of bytes that go one way.  On
        one node all are 0, but for the factor.
        """
        if self.n_nodes == 1:
            return 0.0, 0.0, 0.0, 0.0, 1.0
        waited = self._shift_seconds(1, _SMALL, _SMALL_ROUNDS)
        latency = self._shift_seconds(1, _SMALL, _SMALL_ROUNDS, idle_seconds=waited, polls=True)
        waited = self._shift_seconds(1, _SMALL, _SMALL_ROUNDS, idle_seconds=waited)
        meeting = self.pace_of(self._meet, _SMALL_ROUNDS, 7)
        size = _LEAST
        seconds = self._shift_seconds(1, size, 2)
        while seconds < _LONG_ENOUGH and size < _MOST:
            size = min(_MOST, size * max(2, int(_LONG_ENOUGH / seconds)))
            seconds = self._shift_seconds(1, size, 2)
        rest, wake = waited + meeting, max(waited - latency, 0.0)
        one = together = cable = self._bandwidth(1, size, rest)
        if self._most > 1:
            size = max(_LEAST, size // self._most)
            together = self._bandwidth(self._most, size, rest)
            cable = self._least * together  # less than one alone where their processors are the limit
        self._one_way = True
        alone = self._bandwidth(self._most, size, rest)
        self._one_way = False
        return latency, one, cable, wake, max(alone / together, 1.0)

    def _bandwidth(self, n_members: int, size: int, rest: float) -> float:
        """Bytes per second of each of ``n_members`` of each node that send to the next one; ``rest``: of few bytes."""
        seconds = self._shift_seconds(n_members, size, _LARGE_ROUNDS, meets=True)
        return size / max(seconds - rest, seconds / 2)

    def _meet(self) -> None:
        """A meeting of all members, as operations between nodes begin."""
        if not self.meets_in_memory:
            self._comm.swap_frames()
            return
        self._together()
        frames = np.zeros((2, FRAME_BYTES * self._most), np.uint8)
        self._poll(self._shift(1, frames[0], frames[1:], both_ways=True))
        self._together()

    def _poll(self, requests: Sequence[Any]) -> None:
        """Waits without a pause; on simulated ranks, which take turns, as otherwise."""
        while not self._comm.shares_objects and not self._comm.test_all(requests):
            pass
        self._comm.wait_all(requests)

    def _together(self) -> None:
        """Waits for the other members of the node, in its memory."""
        self._turn += 1
        words = [seen[:8].view(np.int64) for seen in self._seen]
        words[self._position][0] = self._turn
        self._comm.wait_all([_Word(word, self._turn) for word in words])

    def _shift_seconds(
        self,
        n_members: int,
        size: int,
        rounds: int,
        n: int = 1,
        idle_seconds: float = 0.0,
        meets: bool = False,
        polls: bool = False,
    ) -> float:
        """Seconds in which ``n_members`` members of each node send ``n`` times ``size`` bytes to the next node.

        ``idle_seconds``: how long the others sleep in the meantime.  ``meets``: whether all meet before that.
        ``polls``: whether they wait without a pause.
        """
        wait = self._poll if polls else self._comm.wait_all
        sent, received = np.ones(size, np.uint8), np.empty((n, size), np.uint8)
        takes_part = self._position < n_members

        def shift() -> None:
            if meets:
                self._meet()
            elif not takes_part and idle_seconds:
                sleep(idle_seconds)
            wait(self._shift(n_members, sent, received))

        shift()  # connects
        return self.pace_of(shift, rounds, 7, takes_part or meets)

    def _shift(self, n_members: int, sent: np.ndarray, received: np.ndarray, both_ways: bool = False) -> list[Any]:
        """Starts to send ``sent`` to the next node, once for each row that is ``received``.

        Unless it must be ``both_ways``, nodes only send or only receive while the measurement is of one way.
        """
        requests: list[Any] = []
        every = both_ways or not self._one_way
        sends = every or (self._own % 2 == 0 and self._own + 1 < self.n_nodes)
        if self._position < n_members and self._previous is not None and (every or self._own % 2):
            for row in received:
                requests += self._comm.irecv(row, self._previous, _TAG)
        if self._position < n_members and self._next is not None and sends:
            for _ in received:
                requests += self._comm.isend(sent, self._next, _TAG)
        return requests

    def in_a_row(self, latency: float) -> float:
        """Seconds that a small message to another node keeps its processes busy, when several are sent."""
        if self.n_nodes == 1:
            return LinkModel.message_seconds
        many = self._shift_seconds(1, _SMALL, _SMALL_ROUNDS, _IN_A_ROW, idle_seconds=latency, polls=True)
        return max(many - latency, 1e-8) / (_IN_A_ROW - 1)

    def code(self) -> float:
        """Seconds of the Python code of an operation, on all processes at once."""

        def run() -> None:
            for number in range(_PYTHON_CALLS):
                _same(number)

        return self.pace_of(run, _SMALL_ROUNDS)

    # -- within nodes ------------------------------------------------------------------------------------------------

    def copies(self) -> tuple[float, float]:
        """Bytes per second of a process that copies while all do, and of the largest node's processes together."""
        source, target = np.ones(_COPY_BYTES, np.uint8), np.empty(_COPY_BYTES, np.uint8)
        np.copyto(target, source)  # the first touch is no copy
        seconds = self.pace_of(lambda: np.copyto(target, source), _LARGE_ROUNDS)
        return _COPY_BYTES / seconds, self._most * _COPY_BYTES / seconds

    def near(self, memory: float) -> tuple[float, float, float]:
        """Latency and bandwidth of one process that reads another's memory, and the bandwidth of all of a node.

        Those of the package's defaults where no node has two processes; ``memory``: what a process copies of its own.
        """
        if self._most == 1:
            return LinkModel.node_latency, memory, memory
        after = (self._position + 1) % len(self._mates)
        if not self._seen:
            return self._near_by_messages(self._mates[after])
        seen = self._seen[after]
        target = np.empty(_COPY_BYTES, np.uint8)

        def read() -> None:
            np.copyto(target, seen[_LINE_BYTES:])

        read()
        alone = self.pace_of(lambda: read() if self._position == 0 else None, _LARGE_ROUNDS)
        together = self.pace_of(read, _LARGE_ROUNDS)
        latency = min(self._roll_seconds() for _ in range(_ROLL_BATCHES))
        return self._slowest(latency), _COPY_BYTES / alone, self._most * _COPY_BYTES / together

    def _roll_seconds(self) -> float:
        """Seconds of a compiled meeting of the processes of a node: each writes a word and waits for those of all."""
        if self._comm.shares_objects:  # simulated ranks, which take turns
            return self.pace_of(self._comm.barrier, _ROLL_CALLS, 1)
        state = self._roll
        if state is None:
            state = self._roll = np.zeros(at.BLOCKS + len(self._mates), np.int64)
            state[at.MEMBERS], state[at.MEMBER] = len(self._mates), self._position
            state[at.BLOCKS :] = [seen.ctypes.data for seen in self._seen]  # words lie behind the first line
            state[at.POLLS], state[at.YIELDS] = _POLLS, _FOREVER
        kernels.call_roll(state.ctypes.data, 1, 0)  # all have come
        began = perf_counter()
        kernels.call_roll(state.ctypes.data, _ROLL_CALLS, 0)
        return (perf_counter() - began) / _ROLL_CALLS

    def _near_by_messages(self, mate: int) -> tuple[float, float, float]:
        """As `near`, where processes do not see one another's memory: they exchange messages."""
        before = self._mates[self._position - 1]

        def turn(size: int, n_members: int) -> Callable[[], None]:
            sent, received = np.ones(size, np.uint8), np.empty(size, np.uint8)

            def run() -> None:
                comm, requests = self._comm, []
                if len(self._mates) > 1 and (self._position - 1) % len(self._mates) < n_members:
                    requests += comm.irecv(received, before, _TAG)
                if len(self._mates) > 1 and self._position < n_members:
                    requests += comm.isend(sent, mate, _TAG)
                comm.wait_all(requests)

            return run

        latency = self.pace_of(turn(_SMALL, self._most), _SMALL_ROUNDS)
        alone, together = (self.pace_of(turn(_COPY_BYTES, n), _LARGE_ROUNDS) for n in (1, self._most))
        return latency, _COPY_BYTES / alone, self._most * _COPY_BYTES / together
