"""The measurement of a model of links: a ladder of short exchanges between all nodes at once.

Every process sends to its partner on the next node, and receives from that on the node before, so that all cables carry
bytes both ways, as in most operations.  First one process of each node does so, then all of them: together they show
what a cable carries.  Sizes grow until an exchange takes long enough to be timed.  Within nodes, processes read one
another's memory, first one process of each node, then all.

An exchange is repeated without a pause, so that processes keep in step and cables stay busy; the median of a few
batches counts, as operations meet the machine on most days, and all processes take that of the slowest.  Processes that
take no part sleep meanwhile: on a full node they would take the processors from those that do.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Sequence
from math import log2
from statistics import median
from time import perf_counter, sleep

import numpy as np

from spmd_grid.links.model import LinkModel, Machine
from spmd_grid.transport.communicator import Communicator, tag_of

__all__ = ["machine_of", "measure_links"]

_TAG = tag_of("blocking movements")

_SMALL, _LEAST, _MOST = 8, 1 << 16, 1 << 23  # bytes of messages
_LONG_ENOUGH = 0.02  # seconds of an exchange, and of a copy
_SMALL_ROUNDS, _LARGE_ROUNDS, _IN_A_ROW = 20, 3, 16
_WORD_ROUNDS, _WORD_BATCHES, _LOOKS = 50, 4, 100
_COPY_BYTES = 1 << 23
_PYTHON_SECONDS = 5e-6  # of an operation's Python code, on any machine of these years


def measure_links(comm: Communicator, near: Sequence[int], nodes: Sequence[int]) -> LinkModel:
    """The model of the links between the members of ``comm``.

    Collective; the same on all members.  ``near``: by member, a number of its node; ``nodes``: the same by process.
    """
    bench = _Bench(comm, near)
    memory, bus = bench.copies()
    latency, bandwidth, together = bench.near(memory)
    far_latency, far_bandwidth, cable = bench.far()
    rounds = log2(bench.n_nodes) if bench.n_nodes > 1 else 0.0
    agreement = bench.pace_of(comm.swap_frames, _SMALL_ROUNDS)
    return LinkModel(
        node_latency=latency,
        node_bandwidth=bandwidth,
        network_latency=far_latency or 2e-6,
        network_bandwidth=far_bandwidth or 12.5e9,
        memory_bandwidth=memory,
        message_seconds=bench.in_a_row(far_latency),
        call_seconds=max(agreement - rounds * far_latency, 0.0) + _PYTHON_SECONDS,
        cable_bandwidth=cable or None,
        bus_bandwidth=min(together, bus),
        nodes=tuple(nodes),
        machine=machine_of(comm, near),
    )


def machine_of(comm: Communicator, near: Sequence[int]) -> Machine:
    """The machine that the members of ``comm`` run on; ``near``: by member, its node.  Collective, alike on all."""
    name = platform.node().encode()[:64]
    sent, received = np.zeros(64, np.uint8), np.zeros(64 * comm.size, np.uint8)
    sent[: len(name)] = np.frombuffer(name, np.uint8)
    comm.all_gather(sent, received, [64] * comm.size)
    names = [bytes(received[64 * i : 64 * i + 64]).rstrip(b"\0").decode(errors="replace") for i in range(comm.size)]
    firsts = [near.index(node) for node in dict.fromkeys(near)]
    return Machine(tuple(names[first] for first in firsts), platform.machine(), comm.library)


class _Bench:
    """One member of ``comm``, and those with which it exchanges."""

    def __init__(self, comm: Communicator, near: Sequence[int]):
        self._comm = comm
        by_node: dict[int, list[int]] = {}
        for member, node in enumerate(near):
            by_node.setdefault(node, []).append(member)
        members = list(by_node.values())
        self.n_nodes = len(members)
        own = next(i for i, found in enumerate(members) if comm.rank in found)
        self._mates = members[own]
        self._position = self._mates.index(comm.rank)
        after, before = members[(own + 1) % self.n_nodes], members[own - 1]
        # Nodes of other sizes are met as far as they go: messages number k go from place k to place k.
        self._next = after[self._position] if self._position < len(after) else None
        self._previous = before[self._position] if self._position < len(before) else None
        self._most = max(map(len, members))
        self._least = min(map(len, members))

    # -- what all members learn --------------------------------------------------------------------------------------

    def _all(self, value: float) -> np.ndarray:
        received = np.empty(8 * self._comm.size, np.uint8)
        self._comm.all_gather(np.array([value]).view(np.uint8), received, [8] * self._comm.size)
        return received.view(np.float64)

    def _slowest(self, value: float) -> float:
        return float(self._all(value).max())

    def pace_of(self, call: Callable[[], object], rounds: int, batches: int = 3, counts: bool = True) -> float:
        """Seconds of a collective call when it is made again and again: the median of several batches.

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
        return self._slowest(median(means) if counts else 0.0)

    # -- between nodes -----------------------------------------------------------------------------------------------

    def far(self) -> tuple[float, float, float]:
        """Latency and bandwidth of one process that sends to another node, and the bandwidth of a node; 0 on one."""
        if self.n_nodes == 1:
            return 0.0, 0.0, 0.0
        latency = self._shift_seconds(1, _SMALL, _SMALL_ROUNDS)
        latency = self._shift_seconds(1, _SMALL, _SMALL_ROUNDS, idle_seconds=latency)
        size = _LEAST
        seconds = self._shift_seconds(1, size, 2)
        while seconds < _LONG_ENOUGH and size < _MOST:
            size = min(_MOST, size * max(2, int(_LONG_ENOUGH / seconds)))
            seconds = self._shift_seconds(1, size, 2)
        seconds = self._shift_seconds(1, size, _LARGE_ROUNDS, idle_seconds=seconds)
        one = size / max(seconds - latency, seconds / 2)
        if self._most == 1:
            return latency, one, one
        part = max(_LEAST, size // self._most)
        seconds = self._shift_seconds(self._most, part, _LARGE_ROUNDS)
        return latency, one, max(one, self._least * part / max(seconds - latency, seconds / 2))

    def _shift_seconds(self, n_members: int, size: int, rounds: int, n: int = 1, idle_seconds: float = 0.0) -> float:
        """Seconds in which ``n_members`` members of each node send ``n`` times ``size`` bytes to the next node.

        ``idle_seconds``: how long the others sleep in the meantime.
        """
        sent, received = np.ones(size, np.uint8), np.empty((n, size), np.uint8)

        takes_part = self._position < n_members

        def shift() -> None:
            comm, requests = self._comm, []
            if not takes_part and idle_seconds:
                sleep(idle_seconds)
            if takes_part and self._previous is not None:
                for row in received:
                    requests += comm.irecv(row, self._previous, _TAG)
            if takes_part and self._next is not None:
                for _ in range(n):
                    requests += comm.isend(sent, self._next, _TAG)
            comm.wait_all(requests)

        shift()  # connects
        return self.pace_of(shift, rounds, 5, takes_part)

    def in_a_row(self, latency: float) -> float:
        """Seconds that a small message to another node keeps its processes busy, when several are sent."""
        if self.n_nodes == 1:
            return LinkModel.message_seconds
        many = self._shift_seconds(1, _SMALL, _SMALL_ROUNDS, _IN_A_ROW, idle_seconds=latency)
        return max(many - latency, 1e-8) / (_IN_A_ROW - 1)

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
        mate = self._mates[(self._position + 1) % len(self._mates)]
        mine = self._comm.process.arena.allocate(_COPY_BYTES + 64, zeroed=True)
        offset = -1 if mine is None else self._comm.process.arena.offset_of(mine.ctypes.data, mine.nbytes)
        offsets = self._all(float(offset))
        base = self._comm.process.arena.base_of(self._comm.processes[mate])
        if mine is None or base is None or offsets.min() < 0:
            seen = None
        else:
            address = base + int(offsets[mate])
            seen = np.ctypeslib.as_array((ctypes.c_uint8 * (_COPY_BYTES + 64)).from_address(address))
        if self._slowest(float(seen is None)):
            return self._near_by_messages(mate)
        assert mine is not None and seen is not None, "all members see their mates' memory"
        target = np.empty(_COPY_BYTES, np.uint8)

        def read() -> None:
            np.copyto(target, seen[64:])

        read()
        alone = self.pace_of(lambda: read() if self._position == 0 else None, _LARGE_ROUNDS)
        together = self.pace_of(read, _LARGE_ROUNDS)
        words = mine[:8].view(np.int64), seen[:8].view(np.int64)
        latency = min(
            self._word_seconds(*words, first) for first in range(0, _WORD_BATCHES * _WORD_ROUNDS, _WORD_ROUNDS)
        )
        self._comm.barrier()  # no process reads memory that is given back
        return self._slowest(latency), _COPY_BYTES / alone, self._most * _COPY_BYTES / together

    def _word_seconds(self, mine: np.ndarray, seen: np.ndarray, first: int) -> float:
        """Seconds of a round in which each process of a node writes a word and waits for its mate's."""
        self._comm.barrier()
        began = perf_counter()
        for turn in range(first + 1, first + _WORD_ROUNDS + 1):
            mine[0] = turn
            looks = 0
            while seen[0] < turn:
                looks += 1
                if looks % _LOOKS == 0:
                    self._comm.give_way()
        return (perf_counter() - began) / _WORD_ROUNDS

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
