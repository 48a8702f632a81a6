"""The links benchmark: a model is measured, and what it says of operations and reshardings is compared with clocks."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spmd_grid.bench.common.mpi import wait_asleep
from spmd_grid.bench.common.report import Outputs, write_files
from spmd_grid.bench.common.rows import CaseOnLinks
from spmd_grid.bench.common.session import Session, setting_text
from spmd_grid.bench.common.timing import Ranks, calls_of, measure
from spmd_grid.bench.links.calls import Trial, trial_of
from spmd_grid.bench.links.cases import LARGE, MOST_BYTES, LinksCase, side_of
from spmd_grid.bench.links.report import AUTO, LinksRow, summary, table
from spmd_grid.bench.links.undisturbed import second, undisturbed
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.links.model import LinkModel

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["run_bench"]

_SMALL_BYTES, _LEAST_BYTES = 4096, 1 << 18
_CROSSING_SECONDS = 0.04  # of a large array over one cable
_BATCH_SECONDS, _TRIAL_SECONDS, _ROW_SECONDS = 0.02, 0.01, 0.8
_NAP = 1e-4  # seconds
_TURNS, _LEAST_TURNS = 9, 3  # of all rows, and of ways that a strategy takes by a later model alone


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

    Collective over all MPI processes.  All rows are measured in turns, each of which begins with another model.  The
    second fastest turn counts, of each figure of the model as of each row (`bench/links/undisturbed.py`).
    """
    grid = init_grid((-1,))
    session = Session()
    printed = table()
    n_bytes = _large_bytes(LinkModel.measure(grid))  # unlike later ones, this model has the first use of each way in it
    clock = _Clock(grid, _Sleepers(session.comm), rounds, n_bytes)
    named = [CaseOnLinks(links_name, case) for case in cases]
    models: list[LinkModel] = []
    for _ in range(_TURNS):
        models.append(LinkModel.measure(grid))
        links = undisturbed(models)
        for each in named:
            clock.measure(each.case, links)
    rows = [clock.row(each, links) for each in named]
    about = (
        f"second fastest of {_TURNS} turns; in each the lower quartile of up to {rounds} rounds, of the slowest rank"
    )
    session.say(str(links), about, "", printed.head())
    for row in rows:
        session.say(printed.line(row))
    if session.comm.rank == 0:
        texts = {links_name: [str(each) for each in models]}
        if outputs.json and Path(outputs.json).exists():
            kept = json.loads(Path(outputs.json).read_text())
            others = [LinksRow.from_dict(each) for each in kept["rows"] if each["links"] != links_name]
            rows, texts = others + rows, kept["models"] | texts
        session.say("", *summary(rows))
        caption = f"Seconds by the model, and measured; {setting_text(session.setting)}; `spmd_grid bench links`."
        setting = session.setting | {"rounds": rounds}
        write_files(outputs, setting, caption, printed, rows, summary(rows), {"models": texts})


def _large_bytes(links: LinkModel) -> int:
    """The bytes of large arrays, in all turns: they take some hundredths of a second to cross."""
    return int(min(MOST_BYTES, max(_LEAST_BYTES, links.cable * _CROSSING_SECONDS)))


class _Clock:
    """The times of all ways of cases, by ``rounds`` in each turn; ``large_bytes``: of large arrays, in all turns."""

    def __init__(self, grid: ProcessGrid, comm: Ranks, rounds: int, large_bytes: int):
        self._grid, self._comm, self._rounds, self._large_bytes = grid, comm, rounds, large_bytes
        self._times: dict[tuple[LinksCase, Hashable], list[float]] = defaultdict(list)

    def _trial(self, case: LinksCase, links: LinkModel) -> Trial:
        n_bytes = self._large_bytes if case.size == LARGE else _SMALL_BYTES
        return trial_of(case, self._grid, side_of(n_bytes), links)

    def measure(self, case: LinksCase, links: LinkModel) -> None:
        """Times the ways that a case has by the model, once more.  Collective."""
        self._time(case, self._trial(case, links))

    def _time(self, case: LinksCase, trial: Trial) -> None:
        batches = {name: calls_of(call) for name, call in trial.calls.items()}
        found = measure(self._comm, batches, self._rounds, _BATCH_SECONDS, _ROW_SECONDS, trial_seconds=_TRIAL_SECONDS)
        for name, way in trial.ways.items():
            self._times[case, way].append(found.percentile(name, 25))

    def row(self, named: CaseOnLinks[LinksCase], links: LinkModel) -> LinksRow:
        """The row of a case by the model, whose ways are timed now where they rarely were.  Collective."""
        trial = self._trial(named.case, links)
        times = {name: self._times[named.case, way] for name, way in trial.ways.items()}
        while min(map(len, times.values())) < _LEAST_TURNS:
            self._time(named.case, trial)
        fast = {name: second(seconds) for name, seconds in times.items()}
        return LinksRow(named, trial.what, trial.n_bytes, trial.predicted, fast, times[AUTO])
