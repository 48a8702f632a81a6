"""The measurement of a node's memory: copies of arrays in the caches and past them, of one's own and of others.

All members of a node copy at once, and wait for one another before each copy, as in exchanges: so what each has in the
caches is displaced by the others, as there.  Then they copy without waiting, as a process does that cuts its own cells
out: whole arrays, and runs of memory one by one.  The engine's own compiled copy is timed, on arrays of several sizes.
What a meeting and the call of a copy take, a copy of a line shows; what each further wait takes, meetings in a row.

All is measured several times, and medians count: memory and caches are shared with others, who take now more of them
and now less; processes move from core to core, nearer to one another and farther; and members that do not wait may, by
chance, not run at the same time though they share a core.
Copies in runs that touch less are taken to be as fast as those that touch more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from spmd_grid import kernels
from spmd_grid.links.copies import RUN_BYTES
from spmd_grid.links.costs import COMPILED
from spmd_grid.links.model import LinkModel
from spmd_grid.links.team import LINE_BYTES, SEEN_BYTES, Team
from spmd_grid.transport.communicator import tag_of

__all__ = ["Memory", "MemoryTimes", "paces"]

_TAG = tag_of("blocking movements")
_SMALL, _IN_A_ROW = 8, 20

# Arrays that are copied, as far as those of a node's processes have this number of bytes together.  Copies of smaller
# ones take no longer than a meeting; larger ones are written past the caches on purpose.
_SIZES, _MOST_OF_NODE = (1 << 17, 1 << 19, 1 << 21, 3 << 20, 1 << 22, 6 << 20, 1 << 23, 15 << 20), 1 << 30
_WAITING_SECONDS, _ALONE_SECONDS = 0.01, 0.016  # of batches: processes that wait for one another need not share a core

_PYTHON_CALLS = 1000  # of a small function: they take as long as the Python code of an operation


class Memory(NamedTuple):
    """The memory of a node: copies by the bytes that runs touch, as `links/copies.py` lists them; seconds of a meeting,
    and of each further wait of the same call; bandwidth of one process that reads another's memory, and of all.

    ``alone``: copies by processes that do not wait; ``in_runs``: those that go run by run.
    """

    copies: list[tuple[int, float]]
    alone: list[tuple[int, float]]
    in_runs: list[tuple[int, float]]
    alone_in_runs: list[tuple[int, float]]
    memory_bandwidth: float
    latency: float
    step: float
    bandwidth: float
    bus: float
    call_seconds: float


class MemoryTimes:
    """The arrays of a team on which its memory is measured, and what was found."""

    def __init__(self, team: Team):
        self._team = team
        self._sizes = [size for size in _SIZES if 2 * size * team.most <= _MOST_OF_NODE] or [_SIZES[0]]
        source, target = (self._allocate(self._sizes[-1]) for _ in range(2))
        line = _copy(source[:LINE_BYTES], target[:LINE_BYTES])
        copies = [_copy(source[:size], target[:size], halves) for halves in (False, True) for size in self._sizes]
        self._waiting = [*self._near(target[:SEEN_BYTES]), *[self._met(copy, team.most) for copy in (line, *copies)]]
        self._alone = [_python, line, *copies]
        self._found: list[list[list[float]]] = []

    def _allocate(self, n_bytes: int) -> np.ndarray:
        """Memory where arrays of operations lie, each page of it touched."""
        found = self._team.comm.process.arena.allocate(n_bytes)
        found = np.empty(n_bytes, np.uint8) if found is None else found
        found[:] = 1
        return found

    def measure(self) -> None:
        """Times everything once more.  Collective."""
        batches = (self._waiting, _WAITING_SECONDS), (self._alone, _ALONE_SECONDS)
        self._found.append([self._team.steady_paces_of(calls, least) for calls, least in batches])

    def memory(self) -> Memory:
        """The memory, by all times found.  Local."""
        waiting, alone = zip(*self._found, strict=True)
        in_a_row, one, together, rest, *copies = np.median(waiting, axis=0).tolist()
        call, line, *own = np.median(alone, axis=0).tolist()
        n, team = len(self._sizes), self._team
        met, own_copies, in_runs, own_in_runs = (
            paces(self._sizes, [_rest_of(seconds, other) for seconds in each])
            for each, other in ((copies[:n], rest), (own[:n], line), (copies[n:], rest), (own[n:], line))
        )
        near = bandwidth = next(bandwidth for touched, bandwidth in reversed(met) if touched <= 2 * SEEN_BYTES)
        latency = step = LinkModel.node_latency if team.most == 1 else in_a_row  # of messages
        if team.seen:
            latency, step = max(rest - COMPILED * call, 1e-8), max(in_a_row - rest, 1e-8) / (_IN_A_ROW - 1)
            one, together = _rest_of(one, rest), _rest_of(together, rest)
        if team.most > 1:
            bandwidth, near = SEEN_BYTES / one, team.most * min(SEEN_BYTES / together, near)
        return Memory(met, own_copies, in_runs, own_in_runs, _past(met), latency, step, bandwidth, near, call)

    def _near(self, target: np.ndarray) -> list[Callable[[], None]]:
        """Meetings in a row, a reading of a mate's memory by one process of each node, and by all.

        Where processes do not see one another's memory, they exchange messages of these sizes.
        """
        team = self._team
        mate, before = team.mates[(team.position + 1) % len(team.mates)], team.mates[team.position - 1]
        if team.seen:
            copy = _copy(team.seen[team.mates.index(mate)][LINE_BYTES:], target)
            return [partial(team.roll, _IN_A_ROW), self._met(copy, 1), self._met(copy, team.most)]

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

        return [turn(_SMALL, team.most), turn(SEEN_BYTES, 1), turn(SEEN_BYTES, team.most)]

    def _met(self, copy: Callable[[], None], n_members: int) -> Callable[[], None]:
        """A meeting, and a copy by ``n_members`` of each node."""
        team = self._team

        def run() -> None:
            team.roll()
            if team.position < n_members:
                copy()

        return run


def _rest_of(seconds: float, other: float) -> float:
    """Seconds without the ``other`` ones, but at least a fourth."""
    return max(seconds - other, seconds / 4)


def paces(sizes: Sequence[int], seconds: Sequence[float]) -> list[tuple[int, float]]:
    """The bytes that copies of arrays of ``sizes`` touch, and their bytes per second.  Local.

    >>> paces([10, 20, 40], [1, 4, 5])
    [(20, 10.0), (40, 8.0), (80, 8.0)]
    """
    found = [size / each for size, each in zip(sizes, seconds, strict=True)]
    return [(2 * size, round(max(found[i:]), 1)) for i, size in enumerate(sizes)]


def _past(copies: Sequence[tuple[int, float]]) -> float:
    """Bytes per second of what is touched beyond the last size, as of what is touched between the last two."""
    low, fast = copies[-2] if len(copies) > 1 else (0, 1.0)
    high, slow = copies[-1]
    return round((high - low) / (high / slow - low / fast), 1)


def _copy(source: np.ndarray, target: np.ndarray, by_halves: bool = False) -> Callable[[], None]:
    """The engine's copy of an array of bytes; ``by_halves``: every other of its runs of RUN_BYTES, then the rest."""
    parts = [(source, target)]
    if by_halves:
        rows = [array.reshape(-1, 2 * RUN_BYTES) for array in (source, target)]
        parts = [(rows[0][:, half], rows[1][:, half]) for half in (slice(None, RUN_BYTES), slice(RUN_BYTES, None))]
    starts = kernels.address_of(source), kernels.address_of(target)
    boxes = [
        kernels.box_row(
            one.shape, 1, one.strides, kernels.address_of(one), to.strides, kernels.address_of(to) - starts[1]
        )
        for one, to in parts
    ]
    table = kernels.build_table([row for row in boxes if row is not None])
    where, columns, n_rows = kernels.address_of(table), table.shape[1], len(table)
    streams = kernels.streams_for(target.nbytes)

    def run(alive: tuple[np.ndarray, ...] = (source, target, table)) -> None:  # as long as this function
        kernels.copy_table(where, columns, n_rows, 0, starts[1], streams)

    return run


def _same(number: int) -> int:
    return number


def _python() -> None:
    """As much Python code as an operation's."""
    for number in range(_PYTHON_CALLS):
        _same(number)
