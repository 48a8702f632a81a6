"""The seconds of copies within a process and within a node, by how many bytes the run touches.

A run that comes again finds in the caches what they hold of the arrays that it touches, and the rest in memory.  How
fast copies are then is measured for runs of several sizes, and a model lists it: (bytes touched, bytes per second).
A copy of all that is touched takes as long as the list says; between its sizes this time grows in a line, and past
the last one at `memory_bandwidth`:

    seconds of a      |            .' memory_bandwidth
    copy of all       |          .'
    that is touched   |      _.-o 16 MiB
                      |  _.-o 8 MiB
                      |.o 4 MiB
                      +----------------- bytes touched

A run touches the arrays of all its steps.  What crosses between nodes passes through the system's buffers, which take
the caches: copies of a run in which anything crosses are those from memory, however few bytes it touches.

Processes that wait for one another by turns share a core's cache; one that waits for no other has it for itself as
long as it runs, and more of the others: its list is another one.  What a process reads a second time, soon after the
first, is in its core's cache whatever the run touches, and only its copy is written: half of a copy.

Boxes are copied run by run of memory.  The first lines of each run are slower, until the processor fetches ahead, and
more so where fewer of them are in the caches: two more lists have the paces of copies in runs of `RUN_BYTES`.  Shorter
runs take as much longer for each byte, and longer ones for as many bytes of each.

Copies out of another process's memory are no faster than those in one's own, and are bounded by the bus of the node.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import inf

from spmd_grid.links.model import LinkModel

__all__ = ["RUN_BYTES", "copy_seconds", "near_bandwidth", "near_seconds", "in_runs", "run_seconds"]

RUN_BYTES = 1 << 12  # of the runs in which copies are measured


def copy_seconds(links: LinkModel, n_bytes: float, touched: float, alone: bool = False) -> float:
    """Seconds in which a process copies ``n_bytes`` in a run that touches ``touched`` bytes of its arrays.  Plans only.

    ``alone``: whether it waits for no other process.

    >>> links = LinkModel(memory_bandwidth=5e9, copies=[(1 << 20, 20e9)])
    >>> [f"{1e6 * copy_seconds(links, 10**6, touched):.1f} us" for touched in (1 << 20, 1 << 21, 1 << 30)]
    ['50.0 us', '125.0 us', '199.9 us']
    """
    return n_bytes * _seconds_per_byte(links, (alone and links.alone_copies) or links.copies, touched)


def near_bandwidth(links: LinkModel, processes: int) -> float:
    """Bytes per second that each of a node's ``processes`` copies out of another's memory.  Plans only."""
    return min(links.node_bandwidth, links.bus / max(1, processes))


def near_seconds(links: LinkModel, n_bytes: float, processes: int, touched: float) -> float:
    """Seconds in which each of a node's ``processes`` copies ``n_bytes`` out of another's memory.  Plans only.

    ``touched``: the bytes of each process's arrays that the run touches.
    """
    near = 1 / near_bandwidth(links, processes)
    return n_bytes * (max(near, _seconds_per_byte(links, links.copies, touched)) if links.copies else near)


def in_runs(n_runs: int, n_bytes: int) -> int:
    """The part of ``n_bytes`` that takes longer since a copy has ``n_runs`` of them.  Plans only."""
    return min(n_runs * RUN_BYTES, n_bytes) if n_runs > 1 else 0


def run_seconds(links: LinkModel, n_bytes: float, touched: float, alone: bool = False) -> float:
    """The seconds which copies take longer if ``n_bytes`` of them are `in_runs`.  Plans only."""
    at_once, run_by_run = links.copies, links.run_copies
    if alone and links.alone_copies:
        at_once, run_by_run = links.alone_copies, links.alone_run_copies
    if not run_by_run or touched == inf:
        return 0.0
    slower, faster = (_seconds_per_byte(links, each, touched) for each in (run_by_run, at_once))
    return n_bytes * max(0.0, slower - faster)


def _seconds_per_byte(links: LinkModel, copies: Sequence[tuple[float, float]], touched: float) -> float:
    """Of copies in a run that touches ``touched`` bytes."""
    if not copies:
        return 1 / links.memory_bandwidth
    after = bisect_left(copies, (touched, 0.0))
    if after == 0:
        return 1 / copies[0][1]
    low, seconds = copies[after - 1][0], copies[after - 1][0] / copies[after - 1][1]
    slope = 1 / links.memory_bandwidth
    if touched == inf:
        return slope
    if after < len(copies):
        high, bandwidth = copies[after]
        slope = (high / bandwidth - seconds) / (high - low)
    return (seconds + (touched - low) * slope) / touched
