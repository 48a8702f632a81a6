"""The network benchmark: what crosses between nodes, how long it takes, and the same by MPI's own operations.

Ours is timed as a call into ``out=`` and as a plan; by hand, as in ``bench ops`` and ``bench reshard``.  Sources are
not rewritten: what crosses takes much longer than that.  Each contender makes
the same number of calls in a row: a single call would include the wait for the rank that leaves the barrier last, and
buffers would take in what it sends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spmd_grid.array import zeros
from spmd_grid.bench.common.contenders import Contender, check
from spmd_grid.bench.common.report import Outputs, write_files
from spmd_grid.bench.common.rows import OURS, CaseOnLinks
from spmd_grid.bench.common.session import Session, setting_text
from spmd_grid.bench.common.timing import calls_of, measure
from spmd_grid.bench.network import halos
from spmd_grid.bench.network.cases import HALO, OPERATION, NetworkCase, fewest_bytes, layouts
from spmd_grid.bench.network.counters import node_numbers, sent_per_call
from spmd_grid.bench.network.report import NetworkRow, calmer, summary, table
from spmd_grid.bench.ops import peers as operations_by_hand
from spmd_grid.bench.ops.cases import OPS, OpsCase
from spmd_grid.bench.reshard import peers as reshardings_by_hand
from spmd_grid.bench.reshard.cases import cells_of
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.exchange import HaloExchange
from spmd_grid.reshard.execute import run_plan
from spmd_grid.reshard.plan import plan_reshard

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["run_bench"]

_PLAN = f"{OURS}, plan"
_BATCH_SECONDS, _ROW_SECONDS = 0.1, 12.0
_COUNTED_CALLS = 4


def run_bench(
    cases: Sequence[NetworkCase], rounds: int, outputs: Outputs, links_name: str = "", calmest: bool = False
) -> None:
    """Measure and print the rows of ``cases``; other rows in the JSON file, and those of other ``links_name``, stay.

    Collective over all MPI processes.  ``calmest``: of rows that are in the file, the `calmer` measurement stays.
    """
    session = Session()
    comm, printed, rows = session.comm, table(), []
    node_of = node_numbers(comm)
    near = node_of.count(0)
    shape = (comm.size // near, near) if node_of == [rank // near for rank in range(comm.size)] else (1, comm.size)
    line, square = init_grid((-1,)), init_grid(shape)
    session.say(f"nodes of the ranks: {node_of}", f"medians over up to {rounds} interleaved rounds", "", printed.head())
    for case in cases:
        with ExitStack() as stack:
            if case.kind == OPERATION:
                calls = _operation(case, line, comm, stack)
            else:
                calls = (_halo if case.kind == HALO else _resharding)(case, square, comm, node_of, stack)
            times = measure(
                comm,
                {name: calls_of(call) for name, call in calls.items()},
                rounds,
                _BATCH_SECONDS,
                at_most_seconds=_ROW_SECONDS,
                alike=True,
            )
            seconds = {name: times.median(name) for name in calls}
            row = NetworkRow(
                CaseOnLinks(links_name, case), seconds, {}, fewest_bytes(case, node_of, square.grid), times.rounds
            )
            for name in dict.fromkeys([row.ours, row.by_hand]):
                row.network[name] = sent_per_call(comm, calls[name], _COUNTED_CALLS)
        rows.append(row)
        session.say(printed.line(row))
    if comm.rank == 0:
        models = {"nodes": {links_name: node_of}}
        if outputs.json and Path(outputs.json).exists():
            kept = json.loads(Path(outputs.json).read_text())
            before = {each["row"]: NetworkRow.from_dict(each) for each in kept["rows"]}
            if calmest:
                rows = [calmer(before.get(row.case.name, row), row) for row in rows]
            rows = list((before | {row.case.name: row for row in rows}).values())
            models = {"nodes": kept["nodes"] | models["nodes"]}
        session.say("", *summary(rows))
        caption = (
            f"Seconds and bytes over the network per call; {setting_text(session.setting)};"
            " `python -m spmd_grid bench network` under `scripts/cluster run`."
        )
        setting = session.setting | {"rounds": rounds}
        write_files(outputs, setting, caption, printed, rows, summary(rows), models)


Calls = dict[str, Callable[[], object]]


def _operation(case: NetworkCase, grid: ProcessGrid, comm: Intracomm, stack: ExitStack) -> Calls:
    """Contenders of an operation over all ranks, each checked once.  Collective."""
    op, ops_case = OPS[case.what], OpsCase(case.what, case.n_bytes)
    expected = op.result(ops_case.arrays(comm.size), comm.rank)
    x, out = grid.allocate(ops_case.shape(comm.size), np.float64), None
    if expected is not None:
        out = grid.allocate(expected.shape, np.float64)
    contenders = {OURS: Contender(lambda: op.call(x, grid, (0,), **op.arguments, out=out), x, out)}
    if op.plan is not None:
        plan = op.plan(grid, x.shape, "float64", grid_axes=(0,), **op.arguments)
        stack.callback(plan.close)
        contenders[_PLAN] = Contender(lambda: plan.run(x, out), x, out)
    plain = np.empty(x.shape), None if out is None else np.empty(out.shape)
    by_hand = stack.enter_context(operations_by_hand.hand_written(comm, case.what, *plain))
    contenders |= {name: Contender(update, *plain) for name, update in by_hand.items()}
    for number, (name, contender) in enumerate(contenders.items()):
        xs = ops_case.arrays(comm.size, number * comm.size * x.size)
        check(name, contender, case.name, xs[comm.rank], op.result(xs, comm.rank), comm)
    return {name: contender.call for name, contender in contenders.items()}


def _resharding(
    case: NetworkCase, grid: ProcessGrid, comm: Intracomm, node_of: Sequence[int], stack: ExitStack
) -> Calls:
    """Contenders of a resharding, each checked once.  Collective."""
    before, after = layouts(case, grid.grid)
    assert grid.coords is not None  # all processes are on the grid
    boxes = before.core_box(grid.coords), after.core_box(grid.coords)
    shared = [grid.allocate(box.shape, np.float64) for box in boxes]
    plain = [np.empty(box.shape) for box in boxes]
    plan = plan_reshard(before.sharding, after.sharding, before.global_shape, "float64")
    bound = plan.bind(grid)
    contenders = {
        OURS: Contender(lambda: run_plan(plan, shared[0], grid, shared[1]), shared[0], shared[1]),
        _PLAN: Contender(lambda: bound.run(shared[0], shared[1]), shared[0], shared[1]),
    }
    by_hand = stack.enter_context(reshardings_by_hand.hand_written(comm, plain[0], plain[1], before, after))
    contenders |= {name: Contender(update, plain[0], plain[1]) for name, update in by_hand.items()}
    for number, (name, contender) in enumerate(contenders.items()):
        first = number * int(np.prod(before.global_shape))
        sent, expected = (cells_of(box, before.global_shape, first) for box in boxes)
        check(name, contender, case.name, sent, expected, comm)
    return {name: contender.call for name, contender in contenders.items()}


def _halo(case: NetworkCase, grid: ProcessGrid, comm: Intracomm, node_of: Sequence[int], stack: ExitStack) -> Calls:
    """Contenders of an exchange of faces of blocks cut along both dimensions, each checked once.  Collective."""
    sharding = Sharding(grid, [[0], [1]], halo_sizes=[(1, 1), (1, 1)])
    side = case.n_bytes // 8
    shape = side * grid.shape[0], side * grid.shape[1]
    array = zeros(shape, sharding, grid)
    exchange = stack.enter_context(HaloExchange(grid, sharding, shape, "float64", corners=False))
    calls: Calls = {OURS: lambda: exchange.update(array)}
    calls |= stack.enter_context(halos.hand_written(comm, grid.grid, array.local, node_of))
    coords = grid.coords or ()
    whole = np.pad(np.arange(shape[0] * shape[1], dtype=np.float64).reshape(shape), 1, constant_values=-1)
    expected = whole[tuple(slice(c * side, c * side + side + 2) for c in coords)].copy()
    expected[:: side + 1, :: side + 1] = -1  # corners
    for number, (name, call) in enumerate(calls.items()):
        array.local[...] = -1
        array.core[...] = expected[1:-1, 1:-1] + number

        def update(call: Callable[[], object] = call) -> np.ndarray:
            call()
            return array.local

        sent = array.local.copy()
        right = np.where(expected < 0, -1, expected + number)
        check(name, Contender(update, array.local), case.name, sent, right, comm)
    return calls
