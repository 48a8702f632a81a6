"""The calls of the links benchmark: operations, halos, reshardings and a program of all three, with their prices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.array import zeros
from spmd_grid.bench.links.cases import LARGE, NEAR_BYTES, LinksCase, random_pair, side_of
from spmd_grid.bench.links.report import AUTO
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.exchange import HaloExchange
from spmd_grid.halo.geometry.pattern import HaloPattern
from spmd_grid.links.model import LinkModel
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.ops.all_to_all import all_to_all
from spmd_grid.ops.broadcast import broadcast
from spmd_grid.ops.gather import gather
from spmd_grid.ops.reduce import reduce
from spmd_grid.ops.reduce_scatter import reduce_scatter
from spmd_grid.ops.scatter import scatter
from spmd_grid.ops.shift import shift
from spmd_grid.pricing.price import price
from spmd_grid.pricing.steps import HaloExchangeStep, OperationStep, ReshardStep, Step
from spmd_grid.reshard.execute import run_plan
from spmd_grid.reshard.plan import Plan, plan_reshard
from spmd_grid.reshard.planner.node_traffic import crosses_once, node_traffic
from spmd_grid.reshard.planner.steps import NATIVE

__all__ = ["Trial", "trial_of"]

_HALOS = 4  # in a program


class Trial(NamedTuple):
    """The figures of a row: calls and predicted seconds by strategy, and the bytes of the array.

    ``ways``: by strategy, the way in which its call runs; of another model, a strategy may take another way.
    """

    what: str
    n_bytes: int
    calls: dict[str, Callable[[], object]]
    predicted: dict[str, float]
    ways: Mapping[str, Hashable]


def trial_of(case: LinksCase, grid: ProcessGrid, side: int, links: LinkModel) -> Trial:
    """The trial of a case, on arrays of ``side`` x ``side`` numbers.  Collective."""
    if case.operation == "reshard":
        return _resharding(case, grid, side, links)
    if case.operation in ("halo", "program"):
        make = _halo if case.operation == "halo" else _program
        call, steps = make(case, grid, side, links)
        what, n_bytes = ", ".join(step.text.split()[0] for step in steps), side * side * 8
    else:
        call, n_bytes = _operation(case.operation, grid, side)
        what, steps = f"over {grid.size}", [OperationStep(case.operation, n_bytes, (0,))]
    seconds = sum(each.seconds * each.step.times for each in price(steps, grid.grid, links))
    return Trial(what, n_bytes, {AUTO: call}, {AUTO: seconds}, {AUTO: what})


def _resharding(case: LinksCase, grid: ProcessGrid, side: int, links: LinkModel) -> Trial:
    """The plans by strategy; those that another runs in the same way are left out."""
    source, target = random_pair(case, grid.size)
    if case.size == LARGE and _stays_within(plan_reshard(source, target, (side, side), "float64", links=links)):
        side = side_of(NEAR_BYTES)
    plans: dict[str, Plan] = {}
    for strategy in (AUTO, "direct", "basis"):
        plan = plan_reshard(source, target, (side, side), "float64", strategy, links=links)
        if all(_way_of(plan) != _way_of(other) for other in plans.values()):
            plans[strategy] = plan
    calls = {name: _run_of(plan, grid) for name, plan in plans.items()}
    predicted = {name: price([ReshardStep(plan)], grid.grid, links)[0].seconds for name, plan in plans.items()}
    ways = {name: _way_of(plan) for name, plan in plans.items()}
    return Trial(str(plans[AUTO].chosen), side * side * 8, calls, predicted, ways)


def _stays_within(plan: Plan) -> bool:
    """Whether no cell crosses between nodes."""
    return not any(node_traffic(move, plan.links, 0, 0, 0).far for move in plan.moves)


def _way_of(plan: Plan) -> tuple[tuple[Layout, Layout, bool], ...]:
    """The way in which a plan runs: steps between the same layouts are alike, whatever they are called."""
    steps = zip(plan.run_steps, plan.moves, strict=True)
    return tuple(
        [(step.source, step.target, step.kind in NATIVE and not crosses_once(move, plan.links)) for step, move in steps]
    )


def _run_of(plan: Plan, grid: ProcessGrid) -> Callable[[], object]:
    bound = grid.like(plan.source.grid, "bench links")
    x, out = (zeros(each.global_shape, each.sharding, bound).local for each in (plan.source, plan.target))
    return partial(run_plan, plan, x, bound, out)


def _halo(case: LinksCase, grid: ProcessGrid, side: int, links: LinkModel) -> tuple[Callable[[], object], list[Step]]:
    """A refresh of halos of one row, or of whole blocks; ``side`` is a multiple of the number of processes."""
    width = max(1, side // grid.size) if case.size == LARGE else 1
    sharding = Sharding(grid, [[0]], halo_sizes=[width, width])
    halo = HaloExchange(grid, sharding, (side, side), "float64")
    u = zeros((side, side), sharding, grid).local
    step = HaloExchangeStep(HaloPattern(Layout(sharding, (side, side))), 8)
    return partial(halo.update, u), [step]


def _program(
    case: LinksCase, grid: ProcessGrid, side: int, links: LinkModel
) -> tuple[Callable[[], object], list[Step]]:
    """Some refreshes of halos, a sum of one number, and a transposition of the layout."""
    update, (step, *_) = _halo(case, grid, side, links)
    rows, columns = (Sharding(grid, split) for split in ([[0], []], [[], [0]]))
    plan = plan_reshard(rows, columns, (side, side), "float64", links=links)
    reshard, one = _run_of(plan, grid), np.ones(1)

    def run() -> None:
        for _ in range(_HALOS):
            update()
        all_reduce(one, grid, [0], "sum")
        reshard()

    return run, [step._replace(times=_HALOS), OperationStep("all_reduce", 8, (0,)), ReshardStep(plan)]


def _operation(name: str, grid: ProcessGrid, side: int) -> tuple[Callable[[], object], int]:
    """The call of an operation, and the bytes of the array that it takes: of root's, of a broadcast or a scatter."""
    part = grid.allocate((max(1, side // grid.size), side), np.float64, zeroed=True)
    whole = grid.allocate((side, side), np.float64, zeroed=True)
    first = (0,)
    calls: dict[str, tuple[Any, np.ndarray, tuple[Any, ...]]] = {
        "all_reduce": (all_reduce, whole, ("sum",)),
        "all_gather": (all_gather, part, (0,)),
        "broadcast": (broadcast, whole, (first,)),
        "reduce_scatter": (reduce_scatter, whole, ("sum", 0)),
        "all_to_all": (all_to_all, whole, (0, 0)),
        "reduce": (reduce, whole, ("sum", first)),
        "gather": (gather, part, (0, first)),
        "scatter": (scatter, whole, (0, first)),
        "shift": (partial(shift, rotate=True), part, (0, 1)),
    }
    operation, array, args = calls[name]
    return partial(operation, array, grid, first, *args), array.nbytes
