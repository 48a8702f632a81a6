"""The cost of a step by a model of the links: seconds, bytes, messages and memory of the busiest process.

A message of n bytes takes latency + n / bandwidth (the alpha-beta model: Hockney, "The communication challenge for
MPP", 1994).  With p processes in a group, and a pass over memory for everything that is packed, unpacked or combined:

    exchange, swap,   messages x latency + max(sent, received) / bandwidth; passes over what is sent and over the
      all_to_all,       result, or over the contributions to it, twice
      reduce_scatter
    all_gather        ceil(log2 p) x latency + received / bandwidth; a pass over the result
    all_reduce        a reduce_scatter, and an all_gather of its result (Rabenseifner)
    broadcast         of n bytes, the faster of ceil(log2 p) x (latency + n / bandwidth) and
                      2 ceil(log2 p) x latency + 2 n (p - 1) / p / bandwidth; a pass over the result
    all_slice, ...    a pass over the result

The collectives' terms are those of Thakur, Rabenseifner and Gropp, "Optimization of collective communication
operations in MPICH", 2005: recursive doubling, binomial trees, van de Geijn's broadcast.  Within a node, boxes are
copied straight out of the sender's memory: an exchange for all kinds, without packing, and a pass over the rest.  All
processes are assumed to be as busy as the busiest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from spmd_grid.grid.device_grid import Grid
from spmd_grid.links.model import Link, LinkModel
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.planner.direct import run_steps_of
from spmd_grid.reshard.planner.steps import ALL_GATHER, ALL_REDUCE, BROADCAST, MARK_PARTIAL, NATIVE, SLICE, Step
from spmd_grid.reshard.volume.descent import Descent, common_axes
from spmd_grid.reshard.volume.totals import Totals, exchange_totals, most_local
from spmd_grid.typing import MultiIndex

__all__ = ["Cost", "chain_cost", "step_cost", "step_totals"]


class Cost(NamedTuple):
    """The cost for the busiest process: ``seconds``, ``bytes`` received, ``messages``, ``peak`` bytes of memory.

    ``peak``: the local arrays of both sides, contributions not yet combined, and messages.
    """

    seconds: float
    bytes: int
    messages: int
    peak: int


@lru_cache(maxsize=1024)
def step_cost(step: Step, itemsize: int, links: LinkModel) -> Cost:
    """The cost of a step.

    Local; takes no longer for a million devices.  ``messages`` are those of a few devices, and not exact where replicas
    share the work.

    >>> from spmd_grid.grid.layout import Layout
    >>> from spmd_grid.grid.sharding import Sharding
    >>> grid, shape = Grid((1024, 1024)), (65536, 65536)
    >>> blocks, rows = (Layout(Sharding(grid, split), shape) for split in ([[0], [1]], [[0]]))
    >>> cost = step_cost(Step(ALL_GATHER, blocks, rows, (1,), (1,)), 8, LinkModel())
    >>> cost.bytes, cost.messages, f"{cost.seconds:.4f}"
    (33521664, 10, '0.0061')
    """
    if step.kind == ALL_REDUCE and len(parts := run_steps_of(step)) > 1:
        return chain_cost(parts, itemsize, links)
    source, target = (most_local(layout) * itemsize for layout in (step.source, step.target))
    grid, kind = step.source.grid, step.kind
    move = Redistribution(step.source, step.target, itemsize, links.node_size)
    link = links.between(grid, step.grid_axes) if step.grid_axes else _link_of(move, links)
    group = step.target.grid.size if kind == BROADCAST else prod(grid.shape[axis] for axis in step.grid_axes)
    rounds = (group - 1).bit_length()

    def cost(messages: int, moved: int, passes: int, received: int, buffers: int) -> Cost:
        seconds = messages * link.latency + moved / link.bandwidth + passes / links.memory_bandwidth
        return Cost(seconds, received, messages, source + target + buffers)

    if kind in (SLICE, MARK_PARTIAL):
        return cost(0, 0, target, 0, 0)
    totals = step_totals(step, itemsize, links.node_size)
    received, sent = totals.most_received, totals.most_sent
    if kind == ALL_GATHER and not link.in_node:
        return cost(rounds, received, target, received, source + received)
    if kind == BROADCAST and not link.in_node:
        tree = cost(rounds, rounds * received, target, received, source + received)
        spread = cost(2 * rounds, 2 * (received - received // group), target, received, source + received)
        return min(tree, spread)
    messages = max(1, *_messages(move)) if received else 0
    stacked = _contributions(move) * target
    buffers = source + received if kind in NATIVE else 2 * sent + received
    passes = max(target, stacked) + stacked + (-received if link.in_node else sent)
    return cost(messages, max(sent, received), passes, received, buffers + stacked)


@lru_cache(maxsize=1024)
def step_totals(step: Step, itemsize: int, node_size: int) -> Totals:
    """The bytes that a step moves over all devices.  Local; kept, since a step is rated before it is part of a plan."""
    return exchange_totals(Redistribution(step.source, step.target, itemsize, node_size))


def chain_cost(steps: Sequence[Step], itemsize: int, links: LinkModel) -> Cost:
    """The cost of consecutive steps; arrays between them, and messages, are kept for the next run.  Local."""
    costs = [step_cost(step, itemsize, links) for step in steps]
    return Cost(
        sum(cost.seconds for cost in costs),
        sum(cost.bytes for cost in costs),
        sum(cost.messages for cost in costs),
        sum(cost.peak for cost in costs) - sum(most_local(step.source) for step in steps[1:]) * itemsize,
    )


def _contributions(move: Redistribution) -> int:
    """The most contributions to a partial value that a device combines; 0 where it combines none."""
    if move.hidden is None:
        return 0
    most = max(rows for rows, _ in Descent(move.target_cuts[0]).extents())
    return most if most > 1 else 0


def _link_of(move: Redistribution, links: LinkModel) -> Link:
    """The link of an exchange: partners differ on axes that cut the source and the target differently."""
    source, target = move.source.grid, move.target.grid
    if move.on_one_grid:
        pairs = zip(move.source_cuts, move.target_cuts, strict=True)
        return links.between(
            source, [axis for held, wanted in pairs for axis in held.axes[common_axes(held, wanted) :]]
        )
    return links.link(in_node=links.is_one_node(source, target))


def _messages(move: Redistribution) -> tuple[int, int]:
    """The most messages that the probed devices receive, and that they send."""
    served, wanted = ([Descent(cut) for cut in cuts] for cuts in (move.served_cuts, move.target_cuts))
    target = move.target.grid
    most_received = most_sent = 0
    for coords in _probes(target):
        box, own = move.target_box(coords), move.own_source(coords)
        count = prod(line.count(low, high) for line, low, high in zip(served, box.starts, box.stops))
        if own is not None:
            box = move.source_box(own).intersect(box)
            count -= prod(line.count(low, high) for line, low, high in zip(served, box.starts, box.stops))
        most_received = max(most_received, count)
    copies = target.size // prod(prod(line.cut.sizes) for line in wanted)
    sharing = prod(rule.n_replicas for rule in move.replicas.rules)
    for coords in _probes(move.source.grid):
        count = copies
        for line, cut in zip(wanted, move.served_cuts):
            low, high = cut.interval([coords[axis] for axis in cut.axes])
            # Parts beside these reach in with their halos.
            count *= line.count(low - line.cut.high, high + line.cut.low) if low < high else 0
        device = target.device_of_process(move.source.grid.process(move.source.grid.linear_index(coords)))
        if device is not None and move.kept_box(target.multi_index(device)) is not None:
            count -= 1
        most_sent = max(most_sent, -(-count // sharing))
    return most_received, most_sent


def _probes(grid: Grid) -> Iterator[MultiIndex]:
    """The first and the last device, and two off all diagonals: devices there often are their own partners."""
    parts = grid.ndim + 1
    yield tuple([0 for _ in grid.shape])
    yield tuple([size * (axis + 1) // parts for axis, size in enumerate(grid.shape)])
    yield tuple([size * (grid.ndim - axis) // parts for axis, size in enumerate(grid.shape)])
    yield tuple([size - 1 for size in grid.shape])
