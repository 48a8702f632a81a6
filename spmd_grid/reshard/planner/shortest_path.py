"""The cheapest chain of named movements that a bounded search finds: shortest paths over shardings (Dijkstra, 1959).

During the search a step is priced by the size of its largest blocks alone; the chain found is priced again by `cost`.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from math import prod

from spmd_grid.grid.layout import Layout
from spmd_grid.links.copies import copy_seconds
from spmd_grid.links.model import LinkModel
from spmd_grid.reshard.planner.moves import successors
from spmd_grid.reshard.planner.steps import ALL_GATHER, ALL_REDUCE, EXCHANGE, MARK_PARTIAL, SLICE, SWAP, Step
from spmd_grid.reshard.volume.totals import most_local

__all__ = ["cheapest_chain"]

# At most this many layouts are visited; grids of few axes have fewer.
_MOST_LAYOUTS = 64


def cheapest_chain(source: Layout, target: Layout, itemsize: int, links: LinkModel) -> tuple[Step, ...] | None:
    """The steps of the cheapest chain from ``source`` to ``target`` of one grid; None where none is found in time.

    Local.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.sharding import Sharding
    >>> grid = Grid((4, 8))
    >>> ends = [Layout(Sharding(grid, split), (4096, 4096)) for split in ([[0, 1]], [[], [1]])]
    >>> for step in cheapest_chain(*ends, 8, LinkModel()): print(step)
    all_to_all over [1], split 1, concat 0: [[0, 1]] on 4x8 -> [[0],[1]] on 4x8
    all_gather over [0], on 0: [[0],[1]] on 4x8 -> [[],[1]] on 4x8
    """
    turn = count()
    done: set[Layout] = set()
    queue: list[tuple[float, int, Layout, tuple[Step, ...]]] = [(0.0, next(turn), source, ())]
    while queue and len(done) < _MOST_LAYOUTS:
        seconds, _, layout, steps = heappop(queue)
        if layout == target and steps:
            return steps
        if layout in done:
            continue
        done.add(layout)
        for step in successors(layout, target):
            if step.target not in done and (step.kind != EXCHANGE or _keeps_axes(step)):
                price = _price(step, itemsize, links)
                heappush(queue, (seconds + price, next(turn), step.target, (*steps, step)))
    return None


def _keeps_axes(step: Step) -> bool:
    """Whether an exchange only changes blocks or fills halos; one that does everything is not a chain."""
    return step.source.sharding.split_axes == step.target.sharding.split_axes


def _price(step: Step, itemsize: int, links: LinkModel) -> float:
    """The approximate seconds that a step takes."""
    before, after = (most_local(layout) * itemsize for layout in (step.source, step.target))
    if step.kind in (SLICE, MARK_PARTIAL):
        return copy_seconds(links, after, 2 * after)
    axes = step.grid_axes or range(step.source.grid.ndim)
    link = links.between(step.source.grid, axes)
    group = prod(step.source.grid.shape[axis] for axis in axes)
    messages, moved = group - 1, max(before, after) * (group - 1) / group
    if step.kind == ALL_GATHER:
        messages = messages.bit_length()
    elif step.kind == ALL_REDUCE:
        messages, moved = messages + messages.bit_length(), 2 * moved
    elif step.kind in (SWAP, EXCHANGE):
        messages, moved = min(messages, 2), after
    return messages * link.latency + moved / link.bandwidth + copy_seconds(links, moved + after, before + after)
