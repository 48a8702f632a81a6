"""The cost of a step by a model of the links: seconds, bytes, messages and memory of the busiest process.

A step is a round of messages, all under way at the same time: it waits for the latency once, and `wake_seconds` pass
until it goes on; each message keeps its process busy for `message_seconds`, and the bytes take as long as the busiest
of these needs: a process, or the cable that a node's processes share (`links.costs` has the formulas and their
sources).  Everything that is packed, unpacked or combined is another pass over memory (`links.copies`):

    exchange, swap,   the larger of what is sent and received; passes over what is sent and over the result, or over
      all_to_all,       the contributions to it, twice
      reduce_scatter
    all_gather        ceil(log2 H) rounds; MPI's own collective, whose members each receive from other nodes what theirs
                      lacks (recursive doubling); a pass over the result.  Between few nodes an exchange like the others
    all_reduce        a reduce_scatter, and an all_gather of its result (Rabenseifner)
    broadcast         of n bytes on H nodes, the faster of ceil(log2 H) x (latency + n / cable) and
                      2 ceil(log2 H) x latency + 2 n (H - 1) / H / cable; a pass over the result
    all_slice, ...    a pass over the result

Within a node, all kinds are an exchange through memory (`node_work.py`).  An exchange between nodes copies boxes of its
own node besides.  All processes are assumed to be as busy as the busiest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import inf, prod
from typing import NamedTuple

from spmd_grid.links.copies import copy_seconds, in_runs, near_seconds, run_seconds
from spmd_grid.links.costs import python_seconds
from spmd_grid.links.crowds import Crowd, crowd_of
from spmd_grid.links.model import Link, LinkModel
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.planner.direct import run_steps_of
from spmd_grid.reshard.planner.node_traffic import NodeTraffic, crosses_once, is_listed, node_traffic, probes
from spmd_grid.reshard.planner.node_work import runs_of, seconds_within_node, touched_bytes
from spmd_grid.reshard.planner.steps import ALL_GATHER, ALL_REDUCE, BROADCAST, MARK_PARTIAL, NATIVE, SLICE, Step
from spmd_grid.reshard.volume.descent import Descent, common_axes
from spmd_grid.reshard.volume.totals import Totals, exchange_totals, most_local

__all__ = ["Cost", "chain_cost", "costs_in_chain", "stays_within_nodes", "step_cost", "step_totals"]


class Cost(NamedTuple):
    """The cost for the busiest process: ``seconds``, ``bytes`` received, ``messages``, ``peak`` bytes of memory.

    ``peak``: the local arrays of both sides, contributions not yet combined, and messages.
    """

    seconds: float
    bytes: int
    messages: int
    peak: int


@lru_cache(maxsize=1024)
def step_cost(step: Step, itemsize: int, links: LinkModel, beside: float = 0) -> Cost:
    """The cost of a step.

    Local; takes no longer for a million devices.  ``messages`` are those of a few devices, and not exact where replicas
    share the work.  ``beside``: bytes that a run touches besides those of the step, so that caches hold less of them.

    >>> from spmd_grid.grid.device_grid import Grid
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
    if step.kind in (SLICE, MARK_PARTIAL):
        return Cost(_slice_seconds(step, itemsize, target, links, beside), 0, 0, source + target)
    move = Redistribution(step.source, step.target, itemsize, links.node_size)
    link = links.between(step.source.grid, step.grid_axes) if step.grid_axes else _link_of(move, links)
    totals = step_totals(step, itemsize, links.node_size)
    received, sent = totals.most_received, totals.most_sent
    native = step.kind in NATIVE and not (link.in_node or is_listed(move, links))
    if native:
        touched = source + target + beside
        messages, seconds = _native(step, link, received, touched, links, crosses_once(move, links))
        seconds += copy_seconds(links, target, touched)
        return Cost(seconds, received, messages, source + target + source + received)
    messages = max(1, *_messages(move)) if received else 0
    stacked = _contributions(move) * target
    buffers = source + received if step.kind in NATIVE else 2 * sent + received
    touched = (source if messages else target) + max(target, stacked) + beside
    if link.in_node and messages:
        processes = crowd_of(move.target.grid, tuple(range(move.target.grid.ndim)), links).on_node
        seconds = seconds_within_node(move, (sent, received), (source, target), beside, processes, links)
    elif not (messages or stacked):
        seconds = _slice_seconds(step, itemsize, target, links, beside)
    else:  # what nothing is sent to make is a copy of the result, and a fold
        traffic = node_traffic(move, links, received, sent, messages) if messages else None
        packed = 0 if traffic is None else traffic.far if is_listed(move, links) else sent
        seconds = copy_seconds(links, max(target, stacked) + stacked + packed, touched)
        seconds += 0.0 if traffic is None else _exchange_seconds(traffic, link, touched, links)
    return Cost(seconds, received, messages, source + target + buffers + stacked)


def _slice_seconds(step: Step, itemsize: int, target: int, links: LinkModel, beside: float) -> float:
    """The seconds in which a process copies ``target`` bytes out of its own array, by the runs of the first device."""
    move = Redistribution(step.source, step.target, itemsize, links.node_size)
    first = (0,) * step.target.grid.ndim
    box, own = move.kept_box(first), move.own_source(first)
    runs, read = 0, target
    if box is not None and own is not None:
        runs = runs_of(box, move.source_box(own), move.target_box(first))
        read = touched_bytes([box], move.source_box(own), itemsize)
    touched = read + target + beside
    seconds = copy_seconds(links, target, touched, alone=True)
    return seconds + run_seconds(links, in_runs(runs, target), touched, alone=True)


def _exchange_seconds(traffic: NodeTraffic, link: Link, touched: float, links: LinkModel) -> float:
    """The seconds of an exchange between nodes, but for passes over a process's own memory."""
    far = max(traffic.load / link.bandwidth, 0 if links.axes else traffic.load_of_node / links.cable)
    near = near_seconds(links, traffic.near, 1, touched) + (links.step if traffic.near else 0)
    return link.latency + links.wake_seconds + traffic.messages * links.message_seconds + far + near


def _native(step: Step, link: Link, received: int, touched: float, links: LinkModel, once: bool) -> tuple[int, float]:
    """Messages and seconds of an all_gather or a broadcast between nodes, but for the pass over its result.

    ``touched``: the bytes of a process's arrays; ``once``: whether what several members of a node need crosses once.
    """
    grid = step.target.grid
    axes = tuple(range(grid.ndim)) if step.kind == BROADCAST else step.grid_axes
    crowd = crowd_of(grid, axes, links)
    if links.axes:  # single axes have a pace of their own, which nothing shares
        crowd = Crowd(crowd.members, crowd.members, 1, 1)
    far = (crowd.nodes - 1) / max(1, crowd.nodes)

    def seconds(rounds: int, traffic: float) -> float:
        by_process = traffic / crowd.on_node / link.bandwidth
        by_node = 0 if links.axes else traffic * crowd.groups / links.cable
        return rounds * (link.latency + links.message_seconds) + max(by_process, by_node)

    near = 0.0
    if crowd.on_node > 1:
        near = links.step + near_seconds(links, received, crowd.processes, touched)
    if step.kind == ALL_GATHER:
        rounds = (crowd.members - 1).bit_length()
        share = received * crowd.members / max(1, crowd.members - 1) * far * (1 if once else crowd.on_node)
        return rounds, near + seconds((crowd.nodes - 1).bit_length(), share)
    rounds = (crowd.nodes - 1).bit_length()
    tree, spread = seconds(rounds, rounds * received), seconds(2 * rounds, 2 * received * far)
    return (rounds if tree <= spread else 2 * rounds), near + min(tree, spread)


@lru_cache(maxsize=1024)
def step_totals(step: Step, itemsize: int, node_size: int) -> Totals:
    """The bytes that a step moves over all devices.  Local; kept, since a step is rated before it is part of a plan."""
    return exchange_totals(Redistribution(step.source, step.target, itemsize, node_size))


def chain_cost(steps: Sequence[Step], itemsize: int, links: LinkModel) -> Cost:
    """The cost of consecutive steps; arrays between them, and messages, are kept for the next run.  Local.

    One step alone is compiled, unless it combines contributions from other nodes; all else is moved by Python.
    """
    found = _sum(costs_in_chain(steps, itemsize, links), steps, itemsize)
    parts = [part for step in steps for part in run_steps_of(step)]
    crossing = [part for part in parts if _crosses(part, itemsize, links)]
    combines = any(part.source.sharding.partial_axes != part.target.sharding.partial_axes for part in crossing)
    if len(parts) == 1 and not combines:
        return found
    return found._replace(seconds=found.seconds + (python_seconds(links) if crossing else links.call_seconds))


def costs_in_chain(steps: Sequence[Step], itemsize: int, links: LinkModel) -> list[Cost]:
    """The cost of each of several consecutive steps, in a run of all of them.  Local.

    When a step comes again, the caches hold a part of all that the run touches: the arrays of the other steps too.
    Where a step crosses between nodes they hold nothing.
    """
    each = [run_steps_of(step) for step in steps]
    parts = [part for run_steps in each for part in run_steps]
    costs = iter([step_cost(part, itemsize, links, b) for part, b in zip(parts, _beside(parts, itemsize, links))])
    return [_sum([next(costs) for _ in run_steps], run_steps, itemsize) for run_steps in each]


def _beside(parts: Sequence[Step], itemsize: int, links: LinkModel) -> Iterator[float]:
    """By step, the bytes that the run of all ``parts`` touches besides those of the step."""
    if any(_crosses(part, itemsize, links) for part in parts):
        yield from [inf] * len(parts)
        return
    own = [(most_local(part.source) + most_local(part.target)) * itemsize for part in parts]
    between = sum([most_local(part.source) for part in parts[1:]]) * itemsize  # arrays of two steps
    yield from [sum(own) - between - of_step for of_step in own]


def _crosses(step: Step, itemsize: int, links: LinkModel) -> bool:
    """Whether anything of a step passes between nodes."""
    return step.kind not in (SLICE, MARK_PARTIAL) and not stays_within_nodes(step, itemsize, links)


def _sum(costs: Sequence[Cost], steps: Sequence[Step], itemsize: int) -> Cost:
    """The costs of ``steps`` together."""
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


def stays_within_nodes(step: Step, itemsize: int, links: LinkModel) -> bool:
    """Whether the partners in an exchange share nodes.  Plans only."""
    return _link_of(Redistribution(step.source, step.target, itemsize, links.node_size), links).in_node


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
    for coords in probes(target):
        box, own = move.target_box(coords), move.own_source(coords)
        count = prod(line.count(low, high) for line, low, high in zip(served, box.starts, box.stops))
        if own is not None:
            box = move.source_box(own).intersect(box)
            count -= prod(line.count(low, high) for line, low, high in zip(served, box.starts, box.stops))
        most_received = max(most_received, count)
    copies = target.size // prod(prod(line.cut.sizes) for line in wanted)
    sharing = prod(rule.n_replicas for rule in move.replicas.rules)
    for coords in probes(move.source.grid):
        count = copies
        for line, cut in zip(wanted, move.served_cuts):
            low, high = cut.interval([coords[axis] for axis in cut.axes])
            # Parts beside these reach in with their halos.
            count *= line.count(low - line.cut.high, high + line.cut.low) if low < high else 0
        there = target.coords_of_process(move.source.grid.process(move.source.grid.linear_index(coords)))
        if there is not None and move.kept_box(there) is not None:
            count -= 1
        most_sent = max(most_sent, -(-count // sharing))
    return most_received, most_sent
