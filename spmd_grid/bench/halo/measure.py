"""The halo benchmark: `HaloExchange` against hand-written mpi4py, row by row.

In a row all contenders refresh the halos of the same arrays, made by `zeros`.  Before each update every rank writes new
values into its faces, with the same compiled function for all contenders.  This rewriting is also timed alone, in the
same turns, and its median is subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from spmd_grid.array import zeros
from spmd_grid.bench.common.contenders import measure_with_hop, refuse_wrong_cells, rewriting
from spmd_grid.bench.common.limit import limits
from spmd_grid.bench.common.report import Outputs, write_files
from spmd_grid.bench.common.rows import IN_PLACE, OURS, figures_of, is_disturbed
from spmd_grid.bench.common.session import Session, setting_text
from spmd_grid.bench.common.timing import Batch
from spmd_grid.bench.halo.cases import HaloCase, fill_faces, neighbours_of, wrong_cells
from spmd_grid.bench.halo.overlap import OverlapFigures, measure_overlap, overlap_lines
from spmd_grid.bench.halo.peers import hand_written
from spmd_grid.bench.halo.report import IN_LOOP, MESSAGE, MESSAGE_IN_LOOP, RowFigures, summary, table
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.exchange import HaloExchange

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["measure_row", "run_bench"]

_REWRITING, _REWRITING_IN_LOOP, _REWRITING_IN_PLACE = "rewriting", "rewriting in-loop", "rewriting shared memory"
_ROW_SECONDS = 3.5  # so that all rows together stay below four minutes where updates are slow
_VALUES_PER_RANK = 1 << 32  # ranks write values from ranges that do not meet, so that values from a wrong rank show


def run_bench(cases: Sequence[HaloCase], rounds: int, outputs: Outputs, overlap_rounds: int = 0) -> None:
    """Measure and print the rows of ``cases``, then the overlap if asked for.  Collective over all MPI processes."""
    grid = init_grid((-1,))
    session = Session()
    rows: list[RowFigures] = []
    overlap: list[OverlapFigures] = []
    verdicts: list[str] = []
    overlap_text: list[str] = []
    if cases:
        rows = _measure_rows(cases, grid, rounds, session)
        verdicts = summary(rows)
        session.say("", *verdicts)
    if overlap_rounds:
        overlap = measure_overlap(grid, session.comm, overlap_rounds)
        overlap_text = overlap_lines(overlap)
        session.say("", *overlap_text)
    if session.comm.rank == 0:
        caption = (
            f"Time per update; {setting_text(session.setting)}; medians over {rounds} interleaved rounds of"
            " `python -m spmd_grid bench halo`."
        )
        setting, more = session.setting | {"rounds": rounds}, {"overlap": [each._asdict() for each in overlap]}
        write_files(outputs, setting, caption, table(), rows, verdicts, more, overlap_text)


def _measure_rows(cases: Sequence[HaloCase], grid: ProcessGrid, rounds: int, session: Session) -> list[RowFigures]:
    """Measure the rows, and print each as soon as it is measured.  Collective over the grid."""
    printed = table()
    session.say(
        f"medians over {rounds} interleaved rounds, without the time of rewriting the faces",
        "ours: called from Python, as the hand-written ones; message: ours without shared memory;"
        " in place: as many bytes copied from another's memory, and two words",
        "",
        printed.head(),
    )
    rows = []
    for case in cases:
        rows.append(measure_row(case, grid, session.comm, rounds))
        session.say(printed.line(rows[-1]))
    return rows


def measure_row(case: HaloCase, grid: ProcessGrid, comm: Intracomm, rounds: int) -> RowFigures:
    """Measure one row: check every contender, then time them all in turns.

    Collective over the grid, which is a line of all ranks.
    """
    trial = _Trial(case, grid, comm)
    with ExitStack() as stack:
        halo, by_messages = stack.enter_context(trial.exchange()), stack.enter_context(trial.exchange("message"))
        contenders: dict[str, Batch] = {_REWRITING: trial.rewriting, _REWRITING_IN_LOOP: trial.rewriting_in_loop}
        for name, exchange in ((OURS, halo), (MESSAGE, by_messages)):
            contenders[name] = trial.checked(name, exchange.update, *trial.arrays)
        for name, exchange in ((IN_LOOP, halo), (MESSAGE_IN_LOOP, by_messages)):
            contenders[name] = trial.checked_loop(name, exchange)
        by_hand = stack.enter_context(hand_written(comm, trial.fields, case.cut, case.width, case.periodic))
        for name, update in by_hand.items():
            contenders[name] = trial.checked(name, update)
        received = case.received_cells(comm.size)
        found = stack.enter_context(limits(comm, "shift", received, received))
        bases = {name: _REWRITING_IN_LOOP if name in (IN_LOOP, MESSAGE_IN_LOOP) else _REWRITING for name in contenders}
        if found is not None and case.is_rows:  # other faces are limited by the copies of short runs
            contenders |= {_REWRITING_IN_PLACE: rewriting(found.in_place.source), IN_PLACE: found.in_place.batch}
            bases[IN_PLACE] = _REWRITING_IN_PLACE
        times, hop_ns = measure_with_hop(comm, contenders, rounds, _ROW_SECONDS)
        plan = halo.describe()
    rewriting_us = {name: 1e6 * times.median(name) for name in dict.fromkeys(bases.values())}
    figures = figures_of(times, {name: base for name, base in bases.items() if name not in rewriting_us})
    disturbed = is_disturbed(times)
    return RowFigures(case, figures, rewriting_us, times.rounds, plan=plan, disturbed=disturbed, hop_ns=hop_ns)


class _Trial:
    """The fields of one row on this rank, and the batches of calls that rewrite their faces and update their halos."""

    def __init__(self, case: HaloCase, grid: ProcessGrid, comm: Intracomm) -> None:
        from spmd_grid.bench.halo import kernels  # not at the top: importing it compiles them

        self.case, self.grid, self.comm, self.kernels = case, grid, comm, kernels
        self.sharding = Sharding(grid, case.split_axes, halo_sizes=[case.width, case.width])
        self.shape = case.global_shape(grid.size)
        self.arrays = [zeros(self.shape, self.sharding, grid) for _ in range(case.n_fields)]
        self.fields: list[np.ndarray] = [array.local for array in self.arrays]
        self.views = kernels.three_sides(self.fields, case.cut)
        self.first_value = grid.rank * _VALUES_PER_RANK

    def exchange(self, path: str | None = None) -> HaloExchange:
        n_fields, periodic = self.case.n_fields, self.case.periodic
        return HaloExchange(
            self.grid, self.sharding, self.shape, "float64", periodic=periodic, n_fields=n_fields, path=path
        )

    def rewriting(self, n: int) -> None:
        """The batch of rewritings alone, as in `checked`."""
        rewrite, views, width = self.kernels.rewrite_faces(self.case.n_fields), self.views, self.case.width
        for value in range(self.first_value, self.first_value + n):
            rewrite(views, width, value)

    def rewriting_in_loop(self, n: int) -> None:
        """The batch of rewritings alone in a compiled loop, as in `checked_loop`."""
        self.kernels.rewriting_loop(self.case.n_fields)(self.views, self.case.width, self.first_value, n)

    def checked(self, name: str, update: Callable[..., object], *args: object) -> Batch:
        """The batch of updates called from Python.  Checks first that one update fills every cell of the halos."""
        case, comm, first = self.case, self.comm, self.first_value
        rewrite, views, width = self.kernels.rewrite_faces(case.n_fields), self.views, case.width

        def batch(n: int) -> None:
            for value in range(first, first + n):
                rewrite(views, width, value)
                update(*args)

        fill_faces(self.fields, case.cut, width, comm.rank)
        comm.Barrier()
        update(*args)
        n_wrong = wrong_cells(self.fields, case.cut, width, comm.rank, comm.size, case.periodic)
        refuse_wrong_cells(name, case.name, n_wrong, comm)
        return batch

    def checked_loop(self, name: str, halo: HaloExchange) -> Batch:
        """The batch of updates in a compiled loop.  Checks first that three of them leave the third values."""
        case, comm = self.case, self.comm
        loop, fields, views = self.kernels.updating_loop(case.n_fields), self.fields, self.views
        width, first = case.width, self.first_value

        def batch(n: int) -> None:
            loop(halo, *fields, views, width, first, n)

        fill_faces(fields, case.cut, width, comm.rank)
        comm.Barrier()
        batch(3)
        below, above = (
            -1 if rank is None else rank * _VALUES_PER_RANK + 2
            for rank in neighbours_of(comm.rank, comm.size, case.periodic)
        )
        refuse_wrong_cells(name, case.name, self.kernels.wrong_halos(views, width, below, above), comm)
        return batch
