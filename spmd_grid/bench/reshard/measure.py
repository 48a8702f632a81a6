"""The resharding benchmark: plans of ours against mpi4py by hand and other libraries, one row after the other.

In a row all contenders bring the same global array of doubles from one layout to another.  Ours is timed on arrays as
`zeros` makes them, and on plain numpy arrays, which cannot be read by the other processes but have larger pages; all
others, and ours without shared memory, have the latter.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from math import prod

import numpy as np

from spmd_grid.bench.common.contenders import Contender, check, race
from spmd_grid.bench.common.machine import free_bytes
from spmd_grid.bench.common.report import Outputs, Subject, write
from spmd_grid.bench.common.rows import LIMIT, OURS
from spmd_grid.bench.common.session import Session
from spmd_grid.bench.reshard.cases import ReshardCase, cells_of
from spmd_grid.bench.reshard.libraries import Peers
from spmd_grid.bench.reshard.peers import hand_written
from spmd_grid.bench.reshard.report import MESSAGE, NEW, NUMPY, RowFigures, summary, table
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.reshard.execute import run_plan
from spmd_grid.reshard.plan import plan_reshard

__all__ = ["SUBJECT", "measure_row", "run_bench"]

SUBJECT = Subject(
    "reshard", "Time per resharding", "bytes of the global array", ReshardCase, RowFigures, table, summary
)
_REWRITING, _REWRITING_NUMPY = "rewriting", "rewriting numpy arrays"
_ROW_SECONDS = 5.0  # so that all but the largest rows together stay below five minutes
_COPIES = 12  # of the global array, at most, that a row needs in memory without other libraries


def run_bench(cases: Sequence[ReshardCase], rounds: int, libraries: Sequence[str], outputs: Outputs) -> None:
    """Measures and prints the rows of ``cases``, also by ``libraries``.  Collective over all MPI processes."""
    grid = init_grid((-1,))
    session = Session()
    comm, say = session.comm, session.say
    with Peers(comm, libraries) as peers:
        skipped = [f"skipped: {reason}" for reason in peers.skipped.values()]
        in_turns = table(list(peers.versions))
        say(
            *skipped,
            f"medians over {rounds} interleaved rounds, without the time that rewriting the source takes",
            "ours: into out=; message: ours without shared memory; copyto: a copy of as many bytes",
            "",
            in_turns.head(),
        )
        rows = []
        for case in cases:
            if _COPIES * case.n_bytes > comm.bcast(free_bytes()):
                say(f"{case.name}: skipped, it needs {_COPIES * case.n_bytes >> 30} GiB of memory")
                continue
            rows.append(measure_row(case, grid, comm, rounds, peers))
            say(in_turns.line(rows[-1]))
        say("", *summary(rows))
        setting = session.setting | {"rounds": rounds, "peers": peers.versions, "skipped": peers.skipped}
    if comm.rank == 0:
        write(SUBJECT, rows, setting, outputs)


def measure_row(case: ReshardCase, grid: ProcessGrid, comm, rounds: int, peers: Peers) -> RowFigures:
    """One row: checks every contender, then times all in turns.  Collective over the grid, a line of all ranks."""
    before, after = case.layouts(grid.grid)
    has, wants = before.core_box(grid.coords), after.core_box(grid.coords)
    shapes = before.local_shape(grid.coords), after.local_shape(grid.coords)
    shared, plain = ([make(shape, np.float64) for shape in shapes] for make in (grid.allocate, np.empty))
    plan = plan_reshard(before.sharding, after.sharding, case.shape, "float64")
    n = min(array.size for array in plain)
    limit = [array.reshape(-1)[:n] for array in reversed(plain)]
    contenders = {
        OURS: Contender(lambda: run_plan(plan, shared[0], grid, shared[1]), *shared),
        NEW: Contender(lambda: run_plan(plan, shared[0], grid), shared[0]),
        NUMPY: Contender(lambda: run_plan(plan, plain[0], grid, plain[1]), *plain),
        MESSAGE: Contender(lambda: run_plan(plan, plain[0], grid, plain[1]), *plain, path="message"),
    }
    skipped: dict[str, str] = {}
    with ExitStack() as made:
        by_hand = made.enter_context(hand_written(comm, *plain, before, after))
        contenders |= {name: Contender(update, *plain) for name, update in by_hand.items()}
        contenders |= peers.contenders(case, *plain, made, skipped)
        for number, (name, contender) in enumerate(contenders.items()):
            first = number * prod(case.shape)
            sent, wanted = (cells_of(box, case.shape, first) for box in (has, wants))
            check(name, contender, case.name, sent, wanted, comm)
            del sent, wanted
        contenders[LIMIT] = Contender(lambda: np.copyto(*limit), *plain)
        sources = {_REWRITING: shared[0], _REWRITING_NUMPY: plain[0]}
        raced = race(comm, contenders, sources, rounds, _ROW_SECONDS)
    figures = raced.figures | peers.own_figures(case, rounds, _ROW_SECONDS, skipped)
    kept = raced.rewriting_us, raced.rounds, plan.chosen, raced.disturbed, skipped, raced.hop_ns
    return RowFigures(case, figures, *kept)
