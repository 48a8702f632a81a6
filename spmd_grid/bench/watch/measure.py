"""The benchmark of watching: what recording and checking add to an operation, and what being asked costs without."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from spmd_grid.bench.common.rows import figures_of, is_disturbed
from spmd_grid.bench.common.session import Session
from spmd_grid.bench.common.timing import measure
from spmd_grid.bench.watch.cases import WatchCase
from spmd_grid.bench.watch.modes import LOOK, LOOP, MODES, PLAIN, Modes, look_batches
from spmd_grid.bench.watch.report import WatchRow, summary, table
from spmd_grid.grid.process_grid import ProcessGrid, init_grid

__all__ = ["measure_row", "run_bench"]

_ROW_SECONDS = 3.5


def run_bench(cases: Sequence[WatchCase], rounds: int, json_path: str = "", markdown_path: str = "") -> None:
    """Measures and prints the rows of ``cases``.  Collective over all MPI processes."""
    grid = init_grid((-1,))
    session, modes = Session(), Modes()
    in_turns = table()
    session.say(
        f"medians over {rounds} interleaved rounds, of the slowest rank",
        "recorded: as with a timeout; checked: as with check=True; off: what asking for either takes without them",
        "",
        in_turns.head(),
    )
    rows = []
    for case in cases:
        rows.append(measure_row(case, grid, session.comm, rounds, modes))
        session.say(in_turns.line(rows[-1]))
    lines = summary(rows)
    session.say("", *lines)
    session.write_json(json_path, {"rounds": rounds, "rows": [row.to_dict() for row in rows], "summary": lines})
    caption = (
        f"Time per operation; {session.place}; medians over {rounds} interleaved rounds of"
        " `python -m spmd_grid bench watch`."
    )
    session.write_markdown(markdown_path, in_turns.markdown(rows, caption, lines))


def measure_row(case: WatchCase, grid: ProcessGrid, comm, rounds: int, modes: Modes) -> WatchRow:
    """One row: the operation in all modes by turns, and looks.  Collective over the grid, a line of all ranks."""
    with ExitStack() as made:
        calls = {}
        for mode in MODES:
            with modes.within(mode):
                calls[mode] = case.make(grid, made)
        looks = max(comm.allgather(modes.looks(calls[PLAIN])))
        batches = look_batches() | {mode: modes.batch(mode, call) for mode, call in calls.items()}
        times = measure(comm, batches, rounds, at_most_seconds=_ROW_SECONDS)
    figures = figures_of(times, dict.fromkeys((*MODES, LOOK), LOOP))
    return WatchRow(case, figures, looks, len(times.seconds[LOOP]), is_disturbed(times))
