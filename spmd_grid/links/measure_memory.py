"""The measurement of a node's memory: copies of arrays in the caches and past them, of one's own and of others.

All members of a node copy at once, and wait for one another before each copy, as in exchanges: so what each has in the
caches is displaced by the others, as there.  Then they copy without waiting, as a process does that cuts its own cells
out: whole arrays, and runs of memory one by one.  The engine's own compiled copy is timed, on arrays of several sizes;
the sizes of a processor's own cache, and of all, are those for which the law of `links/copies.py` fits the times best.
What calls and meetings take besides, copies of a line show.

Other machines in the same processor disturb memory for seconds, and processes that share a core may, by chance, not run
at the same time: so all is measured several times, and the medians count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid import kernels
from spmd_grid.links.copies import RUN_BYTES
from spmd_grid.links.model import LinkModel
from spmd_grid.links.team import LINE_BYTES, SEEN_BYTES, Team
from spmd_grid.transport.communicator import tag_of

__all__ = ["Copies", "Memory", "MemoryTimes", "fitted", "memory_of"]

_TAG = tag_of("blocking movements")
_SMALL, _SMALL_ROUNDS, _LARGE_ROUNDS = 8, 20, 2

# Arrays that are copied, as far as those of a node's processes have this number of bytes together.  Copies of smaller
# ones take no longer than a meeting; larger ones are written past the caches on purpose.
_SIZES, _MOST_OF_NODE = (1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21, 1 << 22, 1 << 23, 15 << 20), 1 << 30
_STEPS_OF_SIZE = 4  # sizes of caches that are tried, for each doubling
_RUNS, _APART = 256, 4  # runs of a copy, each of a fourth of what lies from its start to that of the next

_PYTHON_CALLS = 1000  # of a small function: they take as long as the Python code of an operation


class Copies(NamedTuple):
    """Bytes per second of copies in a processor's own cache, in all caches, and past them; the bytes of each process
    that the former hold.
    """

    core_bandwidth: float
    cache_bandwidth: float
    memory_bandwidth: float
    core_bytes: int
    cache_bytes: int


class Memory(NamedTuple):
    """The memory of a node: copies; latency and bandwidth of one process that reads another's memory, and of all.

    ``alone``: copies by processes that do not wait; ``run_seconds``: of each run of memory that is copied.
    """

    copies: Copies
    alone: Copies
    run_seconds: float
    latency: float
    bandwidth: float
    bus: float
    call_seconds: float


def memory_of(times: Sequence[Sequence[float]], team: Team) -> Memory:
    """The memory of which `MemoryTimes.measure` gave ``times``, several times.  Local."""
    call, roll, one, together, in_runs, at_once, *copies = np.median(times, axis=0).tolist()
    sizes = _sizes(team)
    met, alone = (
        fitted([2 * size for size in sizes], [seconds / size for seconds, size in zip(each, sizes, strict=True)])
        for each in (copies[: len(sizes)], copies[len(sizes) :])
    )
    paces = met, alone, max(0.0, in_runs - at_once) / _RUNS
    if team.most == 1:
        return Memory(*paces, LinkModel.node_latency, met.cache_bandwidth, met.cache_bandwidth, call)
    bus = team.most * min(SEEN_BYTES / together, met.cache_bandwidth)
    return Memory(*paces, roll, SEEN_BYTES / one, bus, call)


def fitted(touched: Sequence[int], seconds: Sequence[float]) -> Copies:
    """The copies whose seconds per byte in runs that touch ``touched`` bytes are nearest to those.

    Local.  The sum of squares of relative errors is the least.

    >>> touched = [1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20]
    >>> fitted(touched, [0.5e-10, 0.75e-10, 0.875e-10, 1.9375e-10, 2.46875e-10])[:3]  # 0.05, 0.1 and 0.3 s per GB
    (20000000000.0, 10000000000.0, 3333333333.3)
    """
    sizes, times = np.array(touched, float), np.array(seconds)
    steps = int(_STEPS_OF_SIZE * np.log2(sizes[-1] / sizes[0]))
    caches = [sizes[0] * 2 ** (step / _STEPS_OF_SIZE) for step in range(steps)]
    mean, most, least = float(1 / times.mean()), int(touched[-1]), np.inf
    best = Copies(mean, mean, mean, most, most)
    for core, cache in ((core, cache) for cache in caches for core in caches if core <= cache):
        own, held = (np.minimum(1.0, each / sizes) for each in (core, cache))
        parts = [held, 1 - held] if core == cache else [own, held - own, 1 - held]
        terms = np.stack(parts, axis=1) / times[:, None]
        found, *_ = np.linalg.lstsq(terms, np.ones(len(times)), rcond=None)
        off = float(((terms @ found - 1) ** 2).sum())
        first, fast, slow = found[0], found[-2], found[-1]
        if 0 < first <= fast <= slow and off < least:
            core_pace, cache_pace, memory_pace = (round(float(1 / each), 1) for each in (first, fast, slow))
            least, best = off, Copies(core_pace, cache_pace, memory_pace, int(core), int(cache))
    return best


def _sizes(team: Team) -> list[int]:
    return [size for size in _SIZES if 2 * size * team.most <= _MOST_OF_NODE] or [_SIZES[0]]


class MemoryTimes:
    """The arrays of a team on which its memory is measured."""

    def __init__(self, team: Team):
        self._team, sizes = team, _sizes(team)
        source, target = (self._allocate(sizes[-1]) for _ in range(2))
        self._line, *arrays = [_copy(source[:size], target[:size]) for size in (LINE_BYTES, *sizes)]
        self._rest = self._met(self._line, team.most)
        self._copies = [self._met(copy, team.most) for copy in arrays]
        runs = source[: _APART * _RUNS * RUN_BYTES].reshape(_RUNS, -1)[:, :RUN_BYTES]
        into = target[: _RUNS * RUN_BYTES]
        self._alone = [_copy(runs, into.reshape(runs.shape)), _copy(source[: len(into)], into), *arrays]
        self._reading: list[Callable[[], None]] = []
        if team.seen:
            seen = team.seen[(team.position + 1) % len(team.mates)][LINE_BYTES:]
            self._reading = [self._met(_copy(seen, target[:SEEN_BYTES]), n) for n in (1, team.most)]

    def _allocate(self, n_bytes: int) -> np.ndarray:
        """Memory where arrays of operations lie, each page of it touched."""
        found = self._team.comm.process.arena.allocate(n_bytes)
        found = np.empty(n_bytes, np.uint8) if found is None else found
        found[:] = 1
        return found

    def measure(self) -> list[float]:
        """Seconds: of Python code, a meeting in memory, a reading alone and of all, a copy of runs and of as many bytes
        at once, and of copies by size, with meetings and without.  Collective.
        """
        pace_of = self._team.steady_pace_of
        rest = pace_of(self._rest)  # of meetings and calls, as copies of a line show them
        near = self._near(rest) if self._team.most > 1 else [0.0, 1.0, 1.0]
        met = [_rest_of(pace_of(copy), rest) for copy in self._copies]
        call = pace_of(self._line)
        alone = [_rest_of(pace_of(copy), call) for copy in self._alone]
        return [pace_of(_python), *near, *alone[:2], *met, *alone[2:]]

    def _near(self, rest: float) -> list[float]:
        team = self._team
        if not team.seen:
            return self._near_by_messages(team.mates[(team.position + 1) % len(team.mates)])
        return [team.roll_seconds(), *[_rest_of(team.steady_pace_of(copy), rest) for copy in self._reading]]

    def _met(self, copy: Callable[[], None], n_members: int) -> Callable[[], None]:
        """A meeting, and a copy by ``n_members`` of each node."""
        team = self._team

        def run() -> None:
            team.roll()
            if team.position < n_members:
                copy()

        return run

    def _near_by_messages(self, mate: int) -> list[float]:
        """As `_near`, where processes do not see one another's memory: they exchange messages."""
        team, before = self._team, self._team.mates[self._team.position - 1]

        def turn(size: int, n_members: int) -> Callable[[], None]:
            sent, received = np.ones(size, np.uint8), np.empty(size, np.uint8)

            def run() -> None:
                comm, requests = team.comm, []
                if len(team.mates) > 1 and (team.position - 1) % len(team.mates) < n_members:
                    requests += comm.irecv(received, before, _TAG)
                if len(team.mates) > 1 and team.position < n_members:
                    requests += comm.isend(sent, mate, _TAG)
                comm.wait_all(requests)

            return run

        large = [team.pace_of(turn(SEEN_BYTES, n), _LARGE_ROUNDS) for n in (1, team.most)]
        return [team.pace_of(turn(_SMALL, team.most), _SMALL_ROUNDS), *large]


def _rest_of(seconds: float, other: float) -> float:
    """Seconds without the ``other`` ones, but at least half."""
    return max(seconds - other, seconds / 2)


def _copy(source: np.ndarray, target: np.ndarray) -> Callable[[], None]:
    """The engine's copy of an array of bytes."""
    start = kernels.address_of(target)
    row = kernels.box_row(source.shape, 1, source.strides, kernels.address_of(source), target.strides, 0)
    table = kernels.build_table([] if row is None else [row])
    where, columns, rows = kernels.address_of(table), table.shape[1], len(table)
    streams = kernels.streams_for(target.nbytes)

    def run(alive: tuple[np.ndarray, ...] = (source, target, table)) -> None:  # as long as this function
        kernels.copy_table(where, columns, rows, 0, start, streams)

    return run


def _same(number: int) -> int:
    return number


def _python() -> None:
    """As much Python code as an operation's."""
    for number in range(_PYTHON_CALLS):
        _same(number)
