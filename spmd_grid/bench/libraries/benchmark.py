"""A benchmark beside other libraries: open them, measure row by row, print and write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from spmd_grid.bench.common.machine import free_bytes
from spmd_grid.bench.common.report import Outputs, Subject, write
from spmd_grid.bench.common.rows import Row
from spmd_grid.bench.common.session import Session
from spmd_grid.bench.libraries.installed import Libraries
from spmd_grid.bench.libraries.library import DeclinedError, PeerLibrary

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["measure_beside_libraries"]


def measure_beside_libraries(
    subject: Subject,
    types: Sequence[type[PeerLibrary]],
    requested: Sequence[str],
    cases: Sequence[Any],
    measure_row: Callable[[Any, Intracomm, Libraries], Row[Any]],
    needed_bytes: Callable[[Any, int], int],
    rounds: int,
    notes: Sequence[str],
    outputs: Outputs,
) -> None:
    """Measure, print and write the rows of ``cases``.  Collective over all MPI processes.

    ``types``: the benchmark's libraries, of which those ``requested`` take part; ``needed_bytes(case, ranks)``: memory
    of all ranks, without which a row is skipped; ``notes``: lines above the table.
    """
    session = Session()
    comm, say = session.comm, session.say
    with Libraries(comm, requested, types) as libraries:
        table = subject.table(list(libraries.versions))
        say(*(f"skipped: {reason}" for reason in libraries.skipped.values()), *notes, "", table.head())
        rows = []
        for case in cases:
            needed = needed_bytes(case, comm.size)
            if needed > comm.bcast(free_bytes()):
                say(f"{case.name}: skipped, it needs {needed / 2**30:.1f} GiB of memory")
                continue
            try:
                rows.append(measure_row(case, comm, libraries))
            except DeclinedError as reason:
                say(f"{case.name}: skipped, {reason}")
                continue
            say(table.line(rows[-1]))
        say("", *subject.summary(rows))
        setting = session.setting | {"rounds": rounds, "peers": libraries.versions, "skipped": libraries.skipped}
    if comm.rank == 0:
        write(subject, rows, setting, outputs)
