"""The resharding benchmark: our plans against hand-written mpi4py and other libraries, row by row.

In a row all contenders reshard the same global array of doubles.  Ours is timed on arrays as `zeros` makes them, and
on plain numpy arrays, which other processes cannot read but which have larger pages; all other contenders, and ours
without shared memory, use plain arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from spmd_grid.bench.common.contenders import Contender, check, race
from spmd_grid.bench.common.report import Outputs, Subject
from spmd_grid.bench.common.rows import LIMIT, OURS
from spmd_grid.bench.libraries.benchmark import measure_beside_libraries
from spmd_grid.bench.libraries.installed import Libraries
from spmd_grid.bench.reshard.cases import ReshardCase, cells_of
from spmd_grid.bench.reshard.libraries import RESHARD_LIBRARY_TYPES
from spmd_grid.bench.reshard.peers import hand_written
from spmd_grid.bench.reshard.report import BOUND, MESSAGE, NEW, NUMPY, RowFigures, summary, table
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.reshard.execute import run_plan
from spmd_grid.reshard.plan import plan_reshard

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["SUBJECT", "measure_row", "run_bench"]

SUBJECT = Subject(
    "reshard", "Time per resharding", "bytes of the global array", ReshardCase, RowFigures, table, summary
)
_REWRITING, _REWRITING_NUMPY = "rewriting", "rewriting numpy arrays"
_ROW_SECONDS = 5.0  # so that all but the largest rows together stay below five minutes
_COPIES = 12  # of the global array in memory, at most, without other libraries


def run_bench(cases: Sequence[ReshardCase], rounds: int, requested: Sequence[str], outputs: Outputs) -> None:
    """Measure and print the rows of ``cases``, with the ``requested`` libraries.  Collective over all MPI processes."""
    grid = init_grid((-1,))

    def row_of(case: ReshardCase, comm: Intracomm, libraries: Libraries) -> RowFigures:
        return measure_row(case, grid, comm, rounds, libraries)

    notes = [
        f"medians over {rounds} interleaved rounds, without the time of rewriting the source",
        "ours: into out=; message: ours without shared memory; copyto: a copy of the same bytes",
    ]

    def needed_bytes(case: ReshardCase, ranks: int) -> int:
        return _COPIES * case.n_bytes

    measure_beside_libraries(
        SUBJECT, RESHARD_LIBRARY_TYPES, requested, cases, row_of, needed_bytes, rounds, notes, outputs
    )


def measure_row(case: ReshardCase, grid: ProcessGrid, comm: Intracomm, rounds: int, libraries: Libraries) -> RowFigures:
    """Measure one row: check every contender, then time them all in turns.

    Collective over the grid, which is a line of all ranks.
    """
    before, after = case.layouts(grid.grid)
    rank = (comm.rank,)
    source_box, target_box = before.core_box(rank), after.core_box(rank)
    shared = grid.allocate(source_box.shape, np.float64), grid.allocate(target_box.shape, np.float64)
    plain = np.empty(source_box.shape), np.empty(target_box.shape)
    plan = plan_reshard(before.sharding, after.sharding, case.shape, "float64")
    bound = plan.bind(grid)
    n = min(array.size for array in plain)
    copied, copy = plain[0].reshape(-1)[:n], plain[1].reshape(-1)[:n]
    contenders = {
        OURS: Contender(lambda: run_plan(plan, shared[0], grid, shared[1]), *shared),
        BOUND: Contender(lambda: bound.run(shared[0], shared[1]), *shared),
        NEW: Contender(lambda: run_plan(plan, shared[0], grid), shared[0]),
        NUMPY: Contender(lambda: run_plan(plan, plain[0], grid, plain[1]), *plain),
        MESSAGE: Contender(lambda: run_plan(plan, plain[0], grid, plain[1]), *plain, path="message"),
    }
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        by_hand = stack.enter_context(hand_written(comm, *plain, before, after))
        contenders |= {name: Contender(update, *plain) for name, update in by_hand.items()}
        contenders |= libraries.contenders(case, *plain, stack, skipped)
        for number, (name, contender) in enumerate(contenders.items()):
            first = number * prod(case.shape)
            sent, expected = (cells_of(box, case.shape, first) for box in (source_box, target_box))
            check(name, contender, case.name, sent, expected, comm)
            del sent, expected
        contenders[LIMIT] = Contender(lambda: np.copyto(copy, copied), *plain)
        sources = {_REWRITING: shared[0], _REWRITING_NUMPY: plain[0]}
        outcome = race(comm, contenders, sources, rounds, _ROW_SECONDS)
    figures = outcome.figures | libraries.own_figures(case, rounds, _ROW_SECONDS, skipped)
    return RowFigures(
        case,
        figures,
        outcome.rewriting_us,
        outcome.rounds,
        plan=plan.chosen,
        disturbed=outcome.disturbed,
        skipped=skipped,
        hop_ns=outcome.hop_ns,
    )
