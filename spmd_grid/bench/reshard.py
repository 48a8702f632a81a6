"""The resharding benchmark: plans of ours against hand-written mpi4py, one row after the other.

In a row all contenders bring the same global array of doubles from one layout to another.  Before each call every rank
writes new values into its source, the same way for all; what that takes alone is measured in the same turns, and its
median is subtracted.  Ours is timed on arrays as `zeros` makes them, and on plain numpy arrays, which cannot be read by
the other processes but have larger pages; all that is written by hand, and ours without shared memory, has the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import prod
from typing import NamedTuple

import numpy as np

from spmd_grid.bench.reshard_cases import ReshardCase, cells_of
from spmd_grid.bench.reshard_peers import hand_written
from spmd_grid.bench.reshard_report import (
    LIMIT,
    MESSAGE,
    NEW,
    NUMPY,
    RowFigures,
    summary,
    table_head,
    table_row,
    to_markdown,
)
from spmd_grid.bench.rows import OURS, figures_of, is_disturbed
from spmd_grid.bench.session import Session
from spmd_grid.bench.timing import Batch, measure
from spmd_grid.exchange.paths import forced_path
from spmd_grid.grid.box import Box
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.reshard.plan import plan_reshard
from spmd_grid.reshard.run import run_plan

__all__ = ["measure_row", "run_bench"]

_REWRITING, _REWRITING_NUMPY = "rewriting", "rewriting numpy arrays"
_ROW_SECONDS = 5.0  # so that all rows stay below three minutes


def run_bench(cases: Sequence[ReshardCase], rounds: int, json_path: str = "", markdown_path: str = "") -> None:
    """Measures and prints the rows of ``cases``.  Collective over all MPI processes."""
    grid = init_grid((-1,))
    session = Session()
    session.say(f"medians over {rounds} interleaved rounds, without the time that rewriting the source takes")
    session.say("ours: into out=; message: ours without shared memory; copyto: a copy of as many bytes\n", table_head())
    rows = []
    for case in cases:
        rows.append(measure_row(case, grid, session.comm, rounds))
        session.say(table_row(rows[-1]))
    lines = summary(rows)
    session.say("", *lines)
    session.write_json(json_path, {"rows": [row.to_dict() for row in rows], "summary": lines})
    caption = (
        f"Time per resharding; {session.place}; medians over up to {rounds} interleaved rounds of"
        " `python -m spmd_grid bench reshard`."
    )
    session.write_markdown(markdown_path, to_markdown(rows, caption))


class _Contender(NamedTuple):
    """``call`` brings the cells of ``source`` into ``target``, or returns them where that is None."""

    call: Callable[[], object]
    source: np.ndarray
    target: np.ndarray | None
    path: str | None = None  # the one to force

    def within(self):
        """The context to call in."""
        return nullcontext() if self.path is None else forced_path(self.path)

    def batch(self, n: int) -> None:
        call, source = self.call, self.source
        with self.within():
            for value in range(n):
                source.fill(value)
                call()


def measure_row(case: ReshardCase, grid: ProcessGrid, comm, rounds: int) -> RowFigures:
    """One row: checks every contender, then times all in turns.  Collective over the grid, a line of all ranks."""
    before, after = case.layouts(grid.grid)
    shapes = before.local_shape(grid.coords), after.local_shape(grid.coords)
    shared, plain = ([make(shape, np.float64) for shape in shapes] for make in (grid.allocate, np.empty))
    plan = plan_reshard(before.sharding, after.sharding, case.shape, "float64")
    n = min(array.size for array in plain)
    limit = [array.reshape(-1)[:n] for array in reversed(plain)]
    contenders = {
        OURS: _Contender(lambda: run_plan(plan, shared[0], grid, shared[1]), *shared),
        NEW: _Contender(lambda: run_plan(plan, shared[0], grid), shared[0], None),
        NUMPY: _Contender(lambda: run_plan(plan, plain[0], grid, plain[1]), *plain),
        MESSAGE: _Contender(lambda: run_plan(plan, plain[0], grid, plain[1]), *plain, path="message"),
    }
    with hand_written(comm, *plain, before, after) as by_hand:
        contenders |= {name: _Contender(update, *plain) for name, update in by_hand.items()}
        for number, (name, contender) in enumerate(contenders.items()):
            _check(name, contender, case, before.core_box(grid.coords), after.core_box(grid.coords), number, comm)
        contenders[LIMIT] = _Contender(lambda: np.copyto(*limit), *plain)
        rewriting = {_REWRITING: shared[0].fill, _REWRITING_NUMPY: plain[0].fill}
        batches = {name: _times(fill) for name, fill in rewriting.items()}
        batches |= {name: contender.batch for name, contender in contenders.items()}
        times = measure(comm, batches, rounds, at_most_seconds=_ROW_SECONDS)
    in_numpy = {name: contender.source is plain[0] for name, contender in contenders.items()}
    bases = {name: _REWRITING_NUMPY if numpy_ else _REWRITING for name, numpy_ in in_numpy.items()}
    rewriting_us = {name: 1e6 * times.median(name) for name in rewriting}
    rounds = len(times.seconds[_REWRITING])
    return RowFigures(case, figures_of(times, bases), rewriting_us, rounds, plan.chosen, is_disturbed(times))


def _times(fill: Callable[[int], None]) -> Batch:
    def batch(n: int) -> None:
        for value in range(n):
            fill(value)

    return batch


def _check(name: str, contender: _Contender, case: ReshardCase, has: Box, wants: Box, number: int, comm) -> None:
    """One call must bring every cell, to its place; what contender ``number`` has to bring, no other has brought."""
    first = number * prod(case.shape)
    contender.source[...] = cells_of(has, case.shape, first)
    if contender.target is not None:
        contender.target.fill(np.nan)
    comm.Barrier()
    with contender.within():
        result = contender.call()
    arrived = result if contender.target is None else contender.target
    wrong = comm.allgather(int((arrived != cells_of(wants, case.shape, first)).sum()))
    if any(wrong):
        raise RuntimeError(f"{name} gets '{case.name}' wrong: wrong cells by rank: {wrong}")
