"""The links benchmark: a model is measured, and what it says of operations and reshardings is compared with clocks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spmd_grid.array import zeros
from spmd_grid.bench.common.report import Outputs, write_files
from spmd_grid.bench.common.session import Session, setting_text
from spmd_grid.bench.common.timing import calls_of, measure
from spmd_grid.bench.links.cases import LARGE, LinksCase, random_pair
from spmd_grid.bench.links.report import AUTO, LinksRow, Named, summary, table
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.links.costs import operation_seconds
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
from spmd_grid.reshard.execute import run_plan
from spmd_grid.reshard.plan import Plan, plan_reshard

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["run_bench"]

_SMALL_BYTES, _LEAST_BYTES, _MOST_BYTES = 4096, 1 << 18, 1 << 23
_CROSSING_SECONDS = 0.04  # of a large array over one cable
_BATCH_SECONDS, _ROW_SECONDS = 0.02, 2.0


def run_bench(cases: Sequence[LinksCase], rounds: int, outputs: Outputs, links_name: str = "") -> None:
    """Measure and print the rows of ``cases``; rows of other ``links_name`` in the JSON file stay.

    Collective over all MPI processes.
    """
    grid = init_grid((-1,))
    session = Session()
    links = LinkModel.measure(grid)
    printed = table()
    session.say(str(links), f"medians over up to {rounds} rounds, of the slowest rank", "", printed.head())
    rows = []
    for case in cases:
        rows.append(_measure_row(Named(links_name, case), grid, session.comm, rounds, links))
        session.say(printed.line(rows[-1]))
    if session.comm.rank == 0:
        models = {links_name: str(links)}
        if outputs.json and Path(outputs.json).exists():
            kept = json.loads(Path(outputs.json).read_text())
            others = [LinksRow.from_dict(each) for each in kept["rows"] if each["links"] != links_name]
            rows, models = others + rows, kept["models"] | models
        session.say("", *summary(rows))
        caption = f"Seconds by the model, and measured; {setting_text(session.setting)}; `spmd_grid bench links`."
        setting = session.setting | {"rounds": rounds}
        write_files(outputs, setting, caption, printed, rows, summary(rows), {"models": models})


def _measure_row(named: Named, grid: ProcessGrid, comm: Intracomm, rounds: int, links: LinkModel) -> LinksRow:
    n_bytes = _SMALL_BYTES
    if named.case.size == LARGE:
        n_bytes = int(min(_MOST_BYTES, max(_LEAST_BYTES, links.cable * _CROSSING_SECONDS)))
    side = max(1, int((n_bytes // 8) ** 0.5)) // 24 * 24 or 24
    if named.case.number < 0:
        call, n_bytes = _operation(named.case.operation, grid, side)
        predicted = {AUTO: operation_seconds(named.case.operation, n_bytes, grid.grid, (0,), links)}
        what, calls = f"over {grid.size}", {AUTO: call}
    else:
        plans = _plans(named.case, grid, side, links)
        n_bytes, what = side * side * 8, str(plans[AUTO].chosen)
        predicted = {name: plan.run_seconds for name, plan in plans.items()}
        calls = {name: _run_of(plan, grid) for name, plan in plans.items()}
    batches = {name: calls_of(call) for name, call in calls.items()}
    times = measure(comm, batches, rounds, _BATCH_SECONDS, at_most_seconds=_ROW_SECONDS)
    return LinksRow(named, what, n_bytes, predicted, {name: times.median(name) for name in calls})


def _plans(case: LinksCase, grid: ProcessGrid, side: int, links: LinkModel) -> dict[str, Plan]:
    """The plans by strategy; those with the steps of another are left out."""
    source, target = random_pair(case, grid.size)
    plans: dict[str, Plan] = {}
    for strategy in (AUTO, "direct", "basis"):
        plan = plan_reshard(source, target, (side, side), "float64", strategy, links=links)
        if all(plan.steps != other.steps for other in plans.values()):
            plans[strategy] = plan
    return plans


def _run_of(plan: Plan, grid: ProcessGrid) -> Callable[[], object]:
    bound = grid.like(plan.source.grid, "bench links")
    x, out = (zeros(each.global_shape, each.sharding, bound).local for each in (plan.source, plan.target))
    return partial(run_plan, plan, x, bound, out)


def _operation(name: str, grid: ProcessGrid, side: int) -> tuple[Callable[[], object], int]:
    """The call of an operation, and the bytes of the array that it takes: of root's, of a broadcast or a scatter."""
    part = grid.allocate((max(1, side // grid.size), side), np.float64, zeroed=True)
    whole = grid.allocate((side, side), np.float64, zeroed=True)
    first = (0,)
    calls: dict[str, tuple[Callable[[], object], np.ndarray]] = {
        "all_reduce": (lambda: all_reduce(whole, grid, first, "sum"), whole),
        "all_gather": (lambda: all_gather(part, grid, first, 0), part),
        "broadcast": (lambda: broadcast(whole, grid, first, first), whole),
        "reduce_scatter": (lambda: reduce_scatter(whole, grid, first, "sum", 0), whole),
        "all_to_all": (lambda: all_to_all(whole, grid, first, 0, 0), whole),
        "reduce": (lambda: reduce(whole, grid, first, "sum", first), whole),
        "gather": (lambda: gather(part, grid, first, 0, first), part),
        "scatter": (lambda: scatter(whole, grid, first, 0, first), whole),
        "shift": (lambda: shift(part, grid, first, 0, 1, rotate=True), part),
    }
    call, array = calls[name]
    return call, array.nbytes
