"""Choose the fastest way: several chains of steps are priced by the model of the links, and the cheapest is taken.

Arrays of a few bytes may travel with the headers of the meeting that begins a run: there whole runs are compared.

All processes make the same choice, since only the arguments decide; ties go to the way that is listed first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spmd_grid.errors import ShardingError
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.links.model import LinkModel
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.planner.basis import basis_steps
from spmd_grid.reshard.planner.chunking import chunks_for, most_held
from spmd_grid.reshard.planner.cost import Cost, chain_cost, stays_within_nodes
from spmd_grid.reshard.planner.direct import direct_steps, run_steps_of, spread_over
from spmd_grid.reshard.planner.run_cost import may_be_carried, run_seconds
from spmd_grid.reshard.planner.shortest_path import cheapest_chain
from spmd_grid.reshard.planner.steps import ALL_GATHER, ALL_REDUCE, BROADCAST, EXCHANGE, Step
from spmd_grid.reshard.volume.totals import most_local

__all__ = ["STRATEGIES", "Alternative", "Choice", "choose"]

STRATEGIES = "auto", "basis", "direct"

_SAME = 1 + 1e-9  # seconds within this factor are equal: they may be sums in another order

# One exchange of at most this many messages sends no byte twice, and no chain beats it.
_FEW_MESSAGES = 2


class Alternative(NamedTuple):
    """A way that was not taken: its steps, seconds and peak bytes by the model, and why."""

    name: str
    seconds: float
    peak: int
    reason: str
    steps: tuple[Step, ...]


class Choice(NamedTuple):
    """The way that is taken, and those that are not.  ``chunks``: the number of pieces that boxes are cut into."""

    name: str
    steps: tuple[Step, ...]
    lost: tuple[Alternative, ...]
    chunks: int = 1


def choose(
    source: Layout, target: Layout, itemsize: int, strategy: str, links: LinkModel, memory_limit: int | None
) -> Choice:
    """The steps of ``strategy`` from ``source`` to ``target``.

    Plans only.  Raises ShardingError where no way keeps to ``memory_limit``, the most bytes of a process.
    """
    if strategy == "direct":
        ways = [("direct", direct_steps(source, target))]
    elif strategy == "basis":
        ways = [("basis", basis_steps(source, target))]
    else:
        ways = list(_ways(source, target, itemsize, links))
    if len(ways) == 1 and memory_limit is None:
        return Choice(*ways[0], ())
    costs = [chain_cost(steps, itemsize, links) for _, steps in ways]
    rated = [
        (
            name,
            steps,
            _seconds(steps, cost, source, target, itemsize, links),
            cost.peak if steps else _arrays(source, target, itemsize=itemsize),
        )
        for (name, steps), cost in zip(ways, costs, strict=True)
    ]
    fitting = [way for way in rated if memory_limit is None or way[3] <= memory_limit]
    if not fitting:
        in_chunks = None
        if strategy != "basis" and memory_limit is not None:
            in_chunks = _in_chunks(source, target, itemsize, links, memory_limit)
        if in_chunks is None:
            least, arrays = min(rated, key=lambda way: way[3]), _arrays(source, target, itemsize=itemsize)
            raise ShardingError(
                f"plan_reshard: memory_limit is {memory_limit} bytes per process; from {source} to {target.sharding}"
                f" the arrays alone take up to {arrays}, the {least[0]} plan {least[3]}"
            )
        reason = "needs {} bytes, more than the limit"
        lost = [Alternative(name, seconds, peak, reason.format(peak), steps) for name, steps, seconds, peak in rated]
        name, steps, chunks = in_chunks
        return Choice(name, steps, tuple(lost), chunks)
    fastest = min(way[2] for way in fitting)
    best = next(way for way in fitting if way[2] <= _SAME * fastest)
    lost = [
        Alternative(name, seconds, peak, _reason(seconds, peak, best, memory_limit), steps)
        for name, steps, seconds, peak in rated
        if name != best[0]
    ]
    return Choice(best[0], best[1], tuple(lost))


def _seconds(
    steps: tuple[Step, ...], cost: Cost, source: Layout, target: Layout, itemsize: int, links: LinkModel
) -> float:
    """The seconds by which ways are compared: those of the steps, or of whole runs of arrays of a few bytes.

    What such a run takes depends on the processes that it connects: they meet, and the arrays travel with the headers.
    """
    if not steps or not may_be_carried(source, itemsize, links):
        return cost.seconds
    parts = [part for step in steps for part in run_steps_of(step)]
    moves = [Redistribution(part.source, part.target, itemsize, links.node_size) for part in parts]
    return run_seconds(moves, source, target, cost.seconds, links)


def _arrays(*stops: Layout, itemsize: int) -> int:
    """The most bytes of local arrays that a process holds in all of these layouts together."""
    return sum(most_local(layout) for layout in stops) * itemsize


def _in_chunks(
    source: Layout, target: Layout, itemsize: int, links: LinkModel, memory_limit: int
) -> tuple[str, tuple[Step, ...], int] | None:
    """The first way that keeps to the limit if its exchanges run in chunks, and the number of these; None if none does.

    It is the direct way, or, where that first combines a partial value, one exchange without an array in between.
    """
    ways = {direct_steps(source, target): "direct"}
    if _may_be_one(source.sharding, target.sharding):
        ways.setdefault((Step(EXCHANGE, source, target),), "one exchange")
    for steps, name in ways.items():
        left = memory_limit - _arrays(source, *[step.target for step in steps], itemsize=itemsize)
        chunks: int | None = 2  # in one, messages would be staged for the next run too
        for step in steps:
            cells, boxes = most_held(Redistribution(step.source, step.target, itemsize, links.node_size))
            needed = chunks_for(cells * itemsize, left, boxes * itemsize)
            chunks = None if needed is None or chunks is None else max(chunks, needed)
        if steps and chunks is not None:
            return f"{name}, {chunks} chunks", steps, chunks
    return None


def _may_be_one(source: Sharding, target: Sharding) -> bool:
    """Whether one exchange may move a partial value to the target, combined or not."""
    return not (source.partial_axes and target.partial_axes) or source.partial_kind == target.partial_kind


def _reason(seconds: float, peak: int, best: tuple[str, tuple[Step, ...], float, int], memory_limit: int | None) -> str:
    """The reason why another way than ``best`` is not taken."""
    if memory_limit is not None and peak > memory_limit:
        return f"needs {peak} bytes, more than the limit"
    if seconds <= _SAME * best[2]:
        return f"no faster than {best[0]}"
    return f"{seconds / best[2]:.2f} times as long" if best[2] else f"{best[0]} takes no time"


def _ways(source: Layout, target: Layout, itemsize: int, links: LinkModel) -> Iterator[tuple[str, tuple[Step, ...]]]:
    """All ways that are worth rating, in the order in which ties are broken, no way twice."""
    seen = set()
    for name, steps in _all_ways(source, target, itemsize, links):
        if steps not in seen:
            seen.add(steps)
            yield name, steps


def _all_ways(
    source: Layout, target: Layout, itemsize: int, links: LinkModel
) -> Iterator[tuple[str, tuple[Step, ...]]]:
    direct = direct_steps(source, target)
    basis = basis_steps(source, target)
    if source.grid.size == 1 and target.grid.size > 1 and target.sharding == Sharding(target.grid, ()):
        yield BROADCAST, (Step(BROADCAST, source, target),)
    if len(basis) == 1:
        yield basis[0].kind, basis  # one named operation is enough
    yield "direct", direct
    if [step.kind for step in basis] == [ALL_REDUCE] and stays_within_nodes(basis[0], itemsize, links):
        yield "one exchange", (Step(EXCHANGE, source, target),)  # in which all holders of a cell combine it
    if direct:
        yield from _spread_ways(source, target, links)
        yield "basis", basis
        if _is_far(source, target, links) and chain_cost(direct, itemsize, links).messages > _FEW_MESSAGES:
            if chain := cheapest_chain(source, target, itemsize, links):
                yield "chain", chain


def _is_far(source: Layout, target: Layout, links: LinkModel) -> bool:
    """Whether a chain may gain: on one grid, and not within one node, where one exchange reads all cells in place."""
    return source.grid.is_like(target.grid) and not links.between(source.grid, range(source.grid.ndim)).in_node


def _spread_ways(source: Layout, target: Layout, links: LinkModel) -> Iterator[tuple[str, tuple[Step, ...]]]:
    """Ways that send every cell to one of its holders first, and then gather: no holder has to serve very many.

    Over the axes within a node these are two levels: a cell is sent to a node once, and is copied there.
    """
    grid = target.grid
    free = [axis for axis in target.sharding.replicated_axes if grid.shape[axis] > 1]
    if target.sharding.partial_axes or target.sharding.sharded_dims_offsets or not target.ndim:
        return
    near = tuple([axis for axis in free if links.between(grid, [axis]).in_node])
    for axes in dict.fromkeys([tuple(free), near, *[(axis,) for axis in free]]):
        spread = spread_over(target, axes)
        if not axes or spread == source:
            continue
        dim = next(d for d in range(target.ndim) if spread.sharding.axes_of(d) != target.sharding.axes_of(d))
        first = direct_steps(source, spread)
        kind = EXCHANGE if target.sharding.halo_sizes else ALL_GATHER
        last = Step(kind, spread, target, axes, (dim,)) if kind == ALL_GATHER else Step(kind, spread, target)
        over = ", ".join(str(axis) for axis in axes)
        yield f"spread over [{over}], then gather", (*first, last)
