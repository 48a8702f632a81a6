"""The programs benchmark, row by row: traced and by hand, by other libraries, and the time of planning.

A program's versions are checked against numpy on the whole arrays, and then take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from spmd_grid.array import from_global
from spmd_grid.bench.common.blas import share_cores_of_blas
from spmd_grid.bench.common.contenders import refuse_wrong_cells
from spmd_grid.bench.common.report import Outputs, Subject
from spmd_grid.bench.common.rows import OURS, figures_of, is_disturbed
from spmd_grid.bench.common.timing import Ranks, Times, calls_of, measure
from spmd_grid.bench.libraries.benchmark import measure_beside_libraries
from spmd_grid.bench.libraries.installed import Libraries
from spmd_grid.bench.programs.cases import (
    OPERATIONS,
    PLANNING,
    ProgramsCase,
    function_of_operations,
    grid_shape,
    problem_of,
    shapes_of_operations,
)
from spmd_grid.bench.programs.libraries import PROGRAM_LIBRARY_TYPES
from spmd_grid.bench.programs.report import BY_HAND, RowFigures, summary, table
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.grid.sharding import HasGrid, Sharding
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.program.ir import ArraySpec
from spmd_grid.program.partition.public import Partition, partition
from spmd_grid.program.trace.public import trace

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["SUBJECT", "check_program", "measure_operations", "measure_row", "plan_operations", "run_bench"]

SUBJECT = Subject("programs", "Time per run", "most bytes of the arrays", ProgramsCase, RowFigures, table, summary)
_LOOP = "an empty loop"
_ROW_SECONDS = 6.0
_COPIES = 12  # of the global arrays, over all ranks
_TOLERANCE = 1e-4  # of float32

Call = Callable[[], Any]


def run_bench(cases: Sequence[ProgramsCase], rounds: int, requested: Sequence[str], outputs: Outputs) -> None:
    """Measure and print the rows of ``cases``, with the ``requested`` libraries.  Collective over all MPI processes."""

    def row_of(case: ProgramsCase, comm: Intracomm, libraries: Libraries) -> RowFigures:
        share_cores_of_blas(comm)  # as DTensor's threads do
        return measure_row(case, comm, rounds, libraries)

    notes = [
        f"medians over {rounds} interleaved rounds",
        "by hand: numpy on blocks and our operations, with everything prepared; planning: tracing and partitioning",
        "products of numpy have the threads of a rank's part of the cores",
    ]

    def needed_bytes(case: ProgramsCase, ranks: int) -> int:
        return _COPIES * case.n_bytes

    measure_beside_libraries(
        SUBJECT, PROGRAM_LIBRARY_TYPES, requested, cases, row_of, needed_bytes, rounds, notes, outputs
    )


def measure_row(case: ProgramsCase, comm: Intracomm, rounds: int, libraries: Libraries) -> RowFigures:
    """Measure one row: a program, the cost of operations, or planning.  Collective over all processes."""
    if case.program == PLANNING:
        return _measure_planning(case, comm, rounds)
    if case.program == OPERATIONS:
        grid = init_grid((-1,))
        return _row(case, measure_operations(grid, comm, rounds))
    grid = init_grid(grid_shape(case.program, comm.size))
    check_program(case, grid, comm)
    problem = problem_of(case, grid)
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        calls = dict(zip((OURS, BY_HAND), _calls(problem, grid)))
        nothing = np.empty(0)  # in place of source and target: libraries make the arrays of a program themselves
        of_libraries = libraries.contenders(case, nothing, nothing, stack, skipped)
        calls |= {name: contender.call for name, contender in of_libraries.items()}
        times = _times(calls, comm, rounds)
    row = _row(case, times)
    row.by_contender |= libraries.own_figures(case, rounds, _ROW_SECONDS, skipped)
    row.skipped = skipped
    return row


def check_program(case: ProgramsCase, grid: ProcessGrid, comm: Any) -> None:
    """Check that both versions give numpy's result; RuntimeError on all ranks if not.  Collective."""
    problem = problem_of(ProgramsCase(case.program), grid)
    expected = problem.function(*problem.arrays)
    cells = problem.out_sharding.core_slices(expected.shape, grid.own_coords)
    for name, call in zip((OURS, BY_HAND), _calls(problem, grid)):
        found = np.asarray(call())
        wanted = expected[cells]
        bound = _TOLERANCE * np.abs(expected).max()
        wrong = int((np.abs(found - wanted) > bound).sum()) if found.shape == wanted.shape else max(wanted.size, 1)
        refuse_wrong_cells(name, case.name, wrong, comm)


def _calls(problem: Any, grid: ProcessGrid) -> tuple[Call, Call]:
    """The traced program, and that by hand.  Collective."""
    part = problem.partition(grid)
    arrays = [from_global(x, s, grid) for x, s in zip(problem.arrays, part.in_shardings)]
    local = [x.local for x in arrays]
    return lambda: part.run(grid, *local), problem.by_hand(grid, *local)


def _times(calls: dict[str, Call], comm: Ranks, rounds: int) -> Times[str]:
    batches = {_LOOP: calls_of(None)} | {name: calls_of(call) for name, call in calls.items()}
    return measure(comm, batches, rounds, at_most_seconds=_ROW_SECONDS)


def _row(case: ProgramsCase, times: Times[str]) -> RowFigures:
    names = [name for name in times.seconds if name != _LOOP]
    figures = figures_of(times, dict.fromkeys(names, _LOOP))
    return RowFigures(case, figures, {}, times.rounds, disturbed=is_disturbed(times))


# -- operations and planning ---------------------------------------------------------------------------------------


def plan_operations(grid: HasGrid, pure: Grid) -> Partition:
    """The program of 50 operations on a grid, of which the first axis cuts rows.  Plans only."""
    program = trace(function_of_operations, *map(ArraySpec, shapes_of_operations(pure)))
    rows = Sharding(grid, [tuple(range(pure.ndim))])
    return partition(program, grid, [rows, None, rows])


def measure_operations(grid: ProcessGrid, comm: Ranks, rounds: int) -> Times[str]:
    """Times of 50 operations, traced and as the same calls of numpy and of the engine.  Collective."""
    part = plan_operations(grid, grid.grid)
    rng = np.random.default_rng(6)
    wholes = [rng.standard_normal(shape) for shape in shapes_of_operations(grid.grid)]
    arrays = [from_global(x, s, grid) for x, s in zip(wholes, part.in_shardings)]
    local = first, w, y = [x.local for x in arrays]

    def by_hand() -> np.ndarray:
        x = first
        for _ in range(10):
            x = x @ w
            x = np.tanh(x)
            x = x + y
            x = x - all_reduce(np.max(x, axis=0), grid, (0,), "max")
        return x

    return _times({OURS: lambda: part.run(grid, *local), BY_HAND: by_hand}, comm, rounds)


def _measure_planning(case: ProgramsCase, comm: Intracomm, rounds: int) -> RowFigures:
    """Time in which one process traces and partitions; all do it at once, the slowest of each round counts."""
    pure = Grid(case.devices)
    times = measure(comm, {_LOOP: calls_of(None), OURS: calls_of(lambda: plan_operations(pure, pure))}, min(rounds, 15))
    return _row(case, times)
