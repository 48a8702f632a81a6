"""The operations benchmark: our collective operations against hand-written mpi4py, row by row.

In a row all contenders do the same operation on doubles, on a line of all ranks.  Ours is timed as a call into ``out``,
as a call that returns a new array, and as a plan: on arrays of `ProcessGrid.allocate`, which other processes can read,
and on plain numpy arrays, which all hand-written contenders use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from spmd_grid.bench.common.contenders import Contender, check, race
from spmd_grid.bench.common.limit import limits
from spmd_grid.bench.common.machine import free_bytes
from spmd_grid.bench.common.report import Outputs, Subject, write
from spmd_grid.bench.common.rows import IN_PLACE, LIMIT, OURS, WAITING
from spmd_grid.bench.common.session import Session
from spmd_grid.bench.common.timing import Batch
from spmd_grid.bench.ops.cases import OPS, Op, OpsCase
from spmd_grid.bench.ops.peers import hand_written
from spmd_grid.bench.ops.report import NEW, NUMPY, PLAN, PLAN_NUMPY, STARTED, RowFigures, summary, table
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.ops.calls.plan import OperationPlan

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["SUBJECT", "measure_row", "run_bench"]

SUBJECT = Subject("ops", "Time per call", "bytes of each rank's array", OpsCase, RowFigures, table, summary)
_REWRITING, _REWRITING_NUMPY, _REWRITING_IN_LOOP = "rewriting", "rewriting numpy arrays", "rewriting in a compiled loop"
_REWRITING_IN_PLACE, _REWRITING_WAITING = "rewriting shared memory", "rewriting a word"
_SMALL_BYTES = 1 << 10  # above it Python's part is small
_ROW_SECONDS = 3.5
_AXES = (0,)
_COPIES = 20  # each rank holds at most this many copies of the arrays of all ranks


def run_bench(cases: Sequence[OpsCase], rounds: int, outputs: Outputs) -> None:
    """Measure and print the rows of ``cases``.  Collective over all MPI processes."""
    grid = init_grid((-1,))
    session = Session()
    comm, say = session.comm, session.say
    printed = table()
    say(
        f"medians over {rounds} interleaved rounds, without the time of rewriting the array",
        "ours: into out=, arrays from grid.allocate; copyto: a copy of the bytes of the result;"
        " in place: the same bytes copied from the others' memory, and two words; waiting: one word",
        "",
        printed.head(),
    )
    rows = []
    for case in cases:
        needed = comm.size * _COPIES * (comm.size * case.n_bytes)
        if needed > comm.bcast(free_bytes()):
            say(f"{case.name}: skipped, it needs {needed >> 30} GiB of memory")
            continue
        rows.append(measure_row(case, grid, comm, rounds))
        say(printed.line(rows[-1]))
    say("", *summary(rows))
    if comm.rank == 0:
        write(SUBJECT, rows, session.setting | {"rounds": rounds}, outputs)


def measure_row(case: OpsCase, grid: ProcessGrid, comm: Intracomm, rounds: int) -> RowFigures:
    """Measure one row: check every contender, then time them all in turns.

    Collective over the grid, which is a line of all ranks.
    """
    op, shape = OPS[case.op], case.shape(comm.size)
    expected = op.result(case.arrays(comm.size), comm.rank)
    result_shape = None if expected is None else expected.shape
    del expected  # arrays may be large: only those that are timed stay
    shared = grid.allocate(shape, np.float64), None if result_shape is None else grid.allocate(result_shape, np.float64)
    plain = np.empty(shape), None if result_shape is None else np.empty(result_shape)
    with ExitStack() as stack:
        contenders = {
            OURS: Contender(_operation_call(op, shared[0], grid, shared[1]), *shared),
            NEW: Contender(_operation_call(op, shared[0], grid), shared[0]),
            NUMPY: Contender(_operation_call(op, plain[0], grid, plain[1]), *plain),
        }
        if op.plan is not None:
            plan = op.plan(grid, shape, "float64", grid_axes=_AXES, **op.arguments)
            stack.callback(plan.close)
            contenders[PLAN] = Contender(_plan_call(plan, *shared), *shared)
            contenders[PLAN_NUMPY] = Contender(_plan_call(plan, *plain), *plain)
        loops: dict[str, Batch] = {}
        looped = np.empty(shape)
        if op.plan is not None and case.n_bytes <= _SMALL_BYTES:
            contenders[STARTED] = Contender(_started_call(plan, *shared), *shared)
            kernels = import_module("spmd_grid.bench.ops.loops")
            if case.op in kernels.IN_LOOPS and result_shape is not None:
                contenders |= kernels.contenders_in_loops(case.op, plan, looped, np.empty(result_shape))
                loops[_REWRITING_IN_LOOP] = partial(kernels.rewriting, looped)
        by_hand = stack.enter_context(hand_written(comm, case.op, *plain))
        contenders |= {name: Contender(update, *plain) for name, update in by_hand.items()}
        for number, (name, contender) in enumerate(contenders.items()):
            xs = case.arrays(comm.size, number * comm.size * plain[0].size)
            check(name, contender, case.name, xs[comm.rank], op.result(xs, comm.rank), comm)
            del xs
        contenders[LIMIT] = Contender(_copy_call(plain[1]), *plain)
        sources = {_REWRITING: shared[0], _REWRITING_NUMPY: plain[0]}
        if _REWRITING_IN_LOOP in loops:
            sources[_REWRITING_IN_LOOP] = looped
        n_result = 0 if plain[1] is None else plain[1].size
        found = stack.enter_context(limits(comm, case.op, plain[0].size, n_result))
        if found is not None:
            contenders[IN_PLACE], contenders[WAITING] = found.in_place, found.waiting
            sources[_REWRITING_IN_PLACE], sources[_REWRITING_WAITING] = found.in_place.source, found.waiting.source
            loops[_REWRITING_WAITING] = found.rewriting
        outcome = race(comm, contenders, sources, rounds, _ROW_SECONDS, loops)
    return RowFigures(
        case,
        outcome.figures,
        outcome.rewriting_us,
        outcome.rounds,
        disturbed=outcome.disturbed,
        hop_ns=outcome.hop_ns,
    )


# -- calls to time, with all look-ups done beforehand ----------------------------------------------------------


def _operation_call(op: Op, x: np.ndarray, grid: ProcessGrid, out: np.ndarray | None = None) -> Callable[[], object]:
    call, arguments = op.call, op.arguments
    if out is None:
        return lambda: call(x, grid, _AXES, **arguments)
    return lambda: call(x, grid, _AXES, **arguments, out=out)


def _plan_call(plan: OperationPlan, x: np.ndarray, out: np.ndarray | None) -> Callable[[], object]:
    run = plan.run
    return lambda: run(x, out)


def _started_call(plan: OperationPlan, x: np.ndarray, out: np.ndarray | None) -> Callable[[], object]:
    def call() -> object:
        plan.start(x, out)
        return plan.wait()

    return call


def _copy_call(out: np.ndarray | None) -> Callable[[], object]:
    """A call that copies as many bytes as this rank's result has."""
    if out is None:
        return lambda: None
    target, source = out, np.ones(out.shape)
    return lambda: np.copyto(target, source)
