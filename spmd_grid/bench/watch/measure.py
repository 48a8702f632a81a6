"""The watch benchmark: the time that recording, checking and the gate add to an operation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from spmd_grid.bench.common.report import Outputs, write_files
from spmd_grid.bench.common.rows import figures_of, is_disturbed
from spmd_grid.bench.common.session import Session, setting_text
from spmd_grid.bench.common.timing import measure
from spmd_grid.bench.watch.cases import Call, WatchCase
from spmd_grid.bench.watch.gate import GateRow, gate_rows, gate_table
from spmd_grid.bench.watch.modes import LOOK, LOOP, MODES, PLAIN, Modes, look_batches
from spmd_grid.bench.watch.report import WatchRow, summary, table
from spmd_grid.grid.process_grid import ProcessGrid, init_grid

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["measure_row", "run_bench"]

_ROW_SECONDS = 3.5


def run_bench(cases: Sequence[WatchCase], rounds: int, outputs: Outputs) -> None:
    """Measure and print the rows of ``cases``.  Collective over all MPI processes."""
    grid = init_grid((-1,))
    session, modes = Session(), Modes()
    printed = table()
    session.say(
        f"medians over {rounds} interleaved rounds, of the slowest rank",
        "recorded: as with a timeout; checked: as with check=True; off: the cost of looking whether it is either",
        "",
        printed.head(),
    )
    rows = []
    for case in cases:
        rows.append(measure_row(case, grid, session.comm, rounds, modes))
        session.say(printed.line(rows[-1]))
    session.say("", *summary(rows), "", gate_table().head())
    of_gate: list[GateRow] = []
    for row in gate_rows(session.comm, rounds):
        of_gate.append(row)
        session.say(gate_table().line(row))
    if session.comm.rank == 0:
        caption = (
            f"Time per operation; {setting_text(session.setting)}; medians over {rounds} interleaved rounds of"
            " `python -m spmd_grid bench watch`."
        )
        more = {"gate": [row.to_dict() for row in of_gate]}
        more_lines = [gate_table().head(), *map(gate_table().line, of_gate)]
        setting = session.setting | {"rounds": rounds}
        write_files(outputs, setting, caption, printed, rows, summary(rows), more, more_lines)


def measure_row(case: WatchCase, grid: ProcessGrid, comm: Intracomm, rounds: int, modes: Modes) -> WatchRow:
    """Measure one row: time the operation in all modes, and a look, in turns.

    Collective over the grid, which is a line of all ranks.
    """
    with ExitStack() as stack:
        calls: dict[str, Call] = {}
        for mode in MODES:
            with modes.within(mode):
                calls[mode] = case.make(grid, stack)
        looks = max(comm.allgather(modes.looks(calls[PLAIN])))
        batches = look_batches() | {mode: modes.batch(mode, call) for mode, call in calls.items()}
        times = measure(comm, batches, rounds, at_most_seconds=_ROW_SECONDS)
    figures = figures_of(times, dict.fromkeys((*MODES, LOOK), LOOP))
    return WatchRow(case, figures, looks, times.rounds, is_disturbed(times))
