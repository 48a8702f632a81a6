"""The seconds of a run of a plan by a model of the links: its steps, and the meeting of processes that begins it.

The processes that a plan connects meet.  Between nodes, small arrays travel with the headers of the meeting
(`executor/exchanges/carried_boxes.py`): then nothing crosses after it, whatever the steps are.  Groups that the plan
does not connect run at the same time, and the slowest counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid.grid.layout import Layout
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.links.copies import copy_seconds
from spmd_grid.links.costs import agreement_seconds, body_bytes, carried_seconds
from spmd_grid.links.crowds import Crowd, crowd_of, crowd_on
from spmd_grid.links.model import LinkModel
from spmd_grid.reshard.geometry.components import MOST_SEARCHED, connected_processes, is_searched
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.volume.totals import most_local

__all__ = ["may_be_carried", "run_seconds"]


def may_be_carried(source: Layout, itemsize: int, links: LinkModel) -> bool:
    """Whether arrays of ``source`` are so small that they may travel with headers, between known nodes.  Plans only."""
    return links.cable_bandwidth is not None and most_local(source) * itemsize <= at.LINE_ARRAY_BYTES


def run_seconds(
    moves: Sequence[Redistribution],
    source: Layout,
    target: Layout,
    seconds: float,
    links: LinkModel,
    carries: bool = True,
) -> float:
    """The seconds of a run from ``source`` to ``target`` by ``moves``, at least one, which take ``seconds``.

    Plans only.  ``carries``: whether it is of one array, in one piece, so that it may travel with the headers.
    """
    n_bytes, n_bytes_after = (most_local(layout) * moves[0].itemsize for layout in (source, target))
    crowds = _crowds(moves, source, target, links)
    if all(crowd.nodes == 1 < crowd.members for crowd in crowds):  # the meeting is the wait of the first step
        return seconds + agreement_seconds(links, crowds[0]) - links.node_latency
    across = [crowd for crowd in crowds if crowd.nodes > 1]
    carried = carries and all(move.hidden is None for move in moves)
    if across and carried and all(n_bytes <= body_bytes(crowd) for crowd in across):
        within = [agreement_seconds(links, crowd) for crowd in crowds if crowd.nodes == 1]
        copied = max(within) + copy_seconds(links, n_bytes_after, 2 * n_bytes_after) if within else 0.0
        return max(copied, *[carried_seconds(links, crowd, n_bytes) for crowd in across])
    others = [crowd for crowd in crowds if crowd.nodes > 1 or crowd.members == 1]
    return seconds + max(agreement_seconds(links, crowd) for crowd in others)


def _crowds(moves: Sequence[Redistribution], source: Layout, target: Layout, links: LinkModel) -> list[Crowd]:
    """The groups of processes that meet, on their nodes; all of the larger grid where these are many."""
    grid = max(source.grid, target.grid, key=lambda grid: grid.size)
    if grid.size > MOST_SEARCHED:
        return [crowd_of(grid, tuple(range(grid.ndim)), links)]
    processes = sorted({p for each in (source.grid, target.grid) for p in each.ranks or range(each.size)})
    nodes = [links.node_of(process) for process in range(processes[-1] + 1)]
    if not is_searched(processes, nodes):
        return [crowd_of(grid, tuple(range(grid.ndim)), links)]
    left, crowds = set(processes), []
    while left:
        part = connected_processes(moves, min(left), processes, nodes)
        left -= set(part)
        crowds.append(crowd_on(np.array([nodes[process] for process in part]), 1))
    return crowds
