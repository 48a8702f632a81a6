"""The links benchmark: a model is measured, and what it says of operations and reshardings is compared with clocks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spmd_grid.bench.common.mpi import wait_asleep
from spmd_grid.bench.common.report import Outputs, write_files
from spmd_grid.bench.common.rows import CaseOnLinks
from spmd_grid.bench.common.session import Session, setting_text
from spmd_grid.bench.common.timing import Ranks, calls_of, measure
from spmd_grid.bench.links.calls import trial_of
from spmd_grid.bench.links.cases import LARGE, MOST_BYTES, LinksCase, side_of
from spmd_grid.bench.links.pace import Moments, PaceOf
from spmd_grid.bench.links.report import LinksRow, less_disturbed, summary, table
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.links.model import LinkModel

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["run_bench"]

_SMALL_BYTES, _LEAST_BYTES = 4096, 1 << 18
_CROSSING_SECONDS = 0.04  # of a large array over one cable
_BATCH_SECONDS, _TRIAL_SECONDS, _ROW_SECONDS = 0.02, 0.01, 0.8
_NAP = 1e-4  # seconds
_TURNS, _MOST_MODELS = 6, 40  # of measurements after the first, all but one of disturbed rows alone


class _Sleepers:
    """The ranks of a benchmark, which sleep while they wait for others between batches.

    Ranks that take no part in a plan are done at once: polling, they would take a core from those that run it.
    """

    def __init__(self, comm: Intracomm):
        self._comm = comm

    def Barrier(self) -> None:
        wait_asleep(self._comm, _NAP)
        self._comm.Barrier()  # the members of a node leave it together

    def allgather(self, sendobj: Any, /) -> list[Any]:
        wait_asleep(self._comm, _NAP)
        return self._comm.allgather(sendobj)


def run_bench(cases: Sequence[LinksCase], rounds: int, outputs: Outputs, links_name: str = "") -> None:
    """Measure and print the rows of ``cases``; rows of other ``links_name`` in the JSON file stay.

    Collective over all MPI processes.  All rows are measured twice, the second time after all others, and those during
    which the machine's pace changed up to five times more; the model is measured anew where it has
    (`bench/links/pace.py`).
    """
    grid = init_grid((-1,))
    session = Session()
    ranks = _Sleepers(session.comm)
    printed = table()
    first = LinkModel.measure(grid)  # the first use of each way takes longer
    pace = PaceOf(session.comm, _large_bytes(first))
    moments = Moments(pace.now, lambda: LinkModel.measure(grid), _MOST_MODELS)
    session.say(str(moments.links()), f"medians over up to {rounds} rounds, of the slowest rank", "", printed.head())
    named = [CaseOnLinks(links_name, case) for case in cases]
    rows = [_measure_row(each, grid, ranks, rounds, moments.links(), moments.change) for each in named]
    for turn in range(_TURNS):
        for i, each in enumerate(named):
            if turn == 0 or rows[i].disturbed:
                again = _measure_row(each, grid, ranks, rounds, moments.links(), moments.change)
                rows[i] = less_disturbed(rows[i], again)
    for row in rows:
        session.say(printed.line(row))
    if session.comm.rank == 0:
        models = {links_name: [str(each) for each in moments.models]}
        if outputs.json and Path(outputs.json).exists():
            kept = json.loads(Path(outputs.json).read_text())
            others = [LinksRow.from_dict(each) for each in kept["rows"] if each["links"] != links_name]
            rows, models = others + rows, kept["models"] | models
        session.say("", *summary(rows))
        caption = f"Seconds by the model, and measured; {setting_text(session.setting)}; `spmd_grid bench links`."
        setting = session.setting | {"rounds": rounds}
        write_files(outputs, setting, caption, printed, rows, summary(rows), {"models": models})


def _large_bytes(links: LinkModel) -> int:
    """The bytes of large arrays: they take some hundredths of a second to cross."""
    return int(min(MOST_BYTES, max(_LEAST_BYTES, links.cable * _CROSSING_SECONDS)))


def _measure_row(
    named: CaseOnLinks[LinksCase],
    grid: ProcessGrid,
    comm: Ranks,
    rounds: int,
    links: LinkModel,
    change: Callable[[], float],
) -> LinksRow:
    """One measurement of a row; ``change()``: by what factor the pace has changed since ``links`` were measured."""
    n_bytes = _large_bytes(links) if named.case.size == LARGE else _SMALL_BYTES
    trial = trial_of(named.case, grid, side_of(n_bytes), links)
    batches = {name: calls_of(call) for name, call in trial.calls.items()}
    times = measure(comm, batches, rounds, _BATCH_SECONDS, _ROW_SECONDS, trial_seconds=_TRIAL_SECONDS)
    medians = {name: times.median(name) for name in trial.calls}
    return LinksRow(named, trial.what, trial.n_bytes, trial.predicted, medians, change())
