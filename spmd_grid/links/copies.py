"""The seconds of copies within a process and within a node, by how much of what they touch the caches hold.

A run that touches no more than `cache_bytes` of each process's arrays finds them in the caches when it comes again, and
copies at `cache_bandwidth`.  Of one that touches more, a part of `cache_bytes` is found there, and the rest comes from
memory at `memory_bandwidth`, as if what is found were drawn by chance:

    seconds per byte = part / cache_bandwidth + (1 - part) / memory_bandwidth,    part = cache_bytes / touched

A run touches the arrays of all its steps, and of what crosses between nodes as many bytes again: the system's buffers.

A processor's own cache is a level more: of what a run finds in the caches, `core_bytes` are copied in a process's own
memory at `core_bandwidth`.  Processes that wait for one another by turns share it; one that waits for no other has it
for itself as long as it runs, and more of the others: then those are `alone_bytes` and `alone_bandwidth`, and the
caches hold `alone_cache_bytes`.  What a process reads a second time,
soon after the first, is in that cache whatever the run touches, and only its copy is written: half of a copy.

Boxes are copied run by run of memory.  The first lines of each run are slower, until the processor fetches ahead: each
takes `run_seconds` besides, or as much of that as it has of `RUN_BYTES`.

Copies out of another process's memory are bounded by the bus of the node besides.
"""

from __future__ import annotations

from spmd_grid.links.model import LinkModel

__all__ = ["RUN_BYTES", "copy_seconds", "near_bandwidth", "near_seconds", "run_starts"]

RUN_BYTES = 1 << 10  # of the runs by which `run_seconds` is measured


def copy_seconds(links: LinkModel, n_bytes: float, touched: float, alone: bool = False) -> float:
    """Seconds in which a process copies ``n_bytes`` in a run that touches ``touched`` bytes of its arrays.  Plans only.

    ``alone``: whether it waits for no other process.

    >>> links = LinkModel(memory_bandwidth=5e9, cache_bandwidth=20e9, cache_bytes=1 << 20)
    >>> [f"{1e6 * copy_seconds(links, 10**6, touched):.1f} us" for touched in (1 << 20, 1 << 21, 1 << 30)]
    ['50.0 us', '125.0 us', '199.9 us']
    """
    fast = links.cache_bandwidth or links.memory_bandwidth
    own, first, caches = links.core_bandwidth, links.core_bytes, links.cache_bytes
    if alone and links.alone_bandwidth:
        own, first, caches = links.alone_bandwidth, links.alone_bytes, max(caches, links.alone_cache_bytes)
    slow = _mixed(caches, fast, links.memory_bandwidth, touched)
    if own is None:
        return n_bytes * slow
    part = min(1.0, first / touched) if touched else 1.0
    return n_bytes * (slow + part * (1 / own - 1 / fast))


def near_bandwidth(links: LinkModel, processes: int) -> float:
    """Bytes per second that each of a node's ``processes`` copies out of another's memory.  Plans only."""
    return min(links.node_bandwidth, links.bus / max(1, processes))


def near_seconds(links: LinkModel, n_bytes: float, processes: int, touched: float) -> float:
    """Seconds in which each of a node's ``processes`` copies ``n_bytes`` out of another's memory.  Plans only.

    ``touched``: the bytes of each process's arrays that the run touches.
    """
    near = near_bandwidth(links, processes)
    past = near if links.cache_bandwidth is None else min(near, links.memory_bandwidth)
    return n_bytes * _mixed(links.cache_bytes, near, past, touched)


def run_starts(n_runs: int, n_bytes: float) -> float:
    """The multiple of `run_seconds` that a copy of ``n_bytes`` in ``n_runs`` takes.  Plans only."""
    return min(n_runs, n_bytes / RUN_BYTES)


def _mixed(held: int, fast: float, slow: float, touched: float) -> float:
    """Seconds per byte where the caches hold ``held`` of ``touched`` bytes."""
    part = min(1.0, held / touched) if touched else 1.0
    return part / fast + (1 - part) / slow
