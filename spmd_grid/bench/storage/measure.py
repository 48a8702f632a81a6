"""The storage benchmark: an array is saved and loaded in turns, row by row, on one disk.

What is saved is removed before the next turn, and files that are loaded are dropped from memory first, both outside of
the times.  Every way brings what it saved to the disk within its time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.bench.common.contenders import refuse_wrong_cells
from spmd_grid.bench.common.machine import free_bytes
from spmd_grid.bench.common.report import Outputs, Subject, write
from spmd_grid.bench.common.rows import OURS, figures_of, is_disturbed
from spmd_grid.bench.common.session import Session
from spmd_grid.bench.common.timing import measure_once
from spmd_grid.bench.libraries.library import AbsentError
from spmd_grid.bench.storage.by_hand import drop_from_memory
from spmd_grid.bench.storage.cases import BESIDE, StorageCase, cells_of
from spmd_grid.bench.storage.contenders import LIBRARY_WAYS, OWN_WAYS, Way
from spmd_grid.bench.storage.report import LARGE, NO_CHECKSUMS, RAW, RowFigures, summary, table
from spmd_grid.formatting import bytes_text
from spmd_grid.grid.process_grid import ProcessGrid, init_grid

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["SUBJECT", "check", "measure_row", "run_bench"]

SUBJECT = Subject("storage", "Time to save or load", "bytes of the array", StorageCase, RowFigures, table, summary)
_NOTHING = "nothing"
_COPIES = 5  # of the array in memory, over all ranks
_CHECKED_BYTES = 1 << 19
_IN_LARGE_ROWS = (OURS, NO_CHECKSUMS, RAW)  # which take long
_LARGE_ROUNDS = 5
_COMPUTED_CELLS, _COMPUTED_TIMES = 1 << 14, 200


def run_bench(
    cases: Sequence[StorageCase], rounds: int, requested: Sequence[str], folder: str, outputs: Outputs
) -> None:
    """Measure and print the rows of ``cases`` in a new folder in ``folder``.  Collective over all MPI processes."""
    grid = init_grid((-1,))
    session = Session()
    comm, say = session.comm, session.say
    with _scratch(comm, folder) as scratch, _opened(comm, requested) as (found, skipped):
        printed = table([way.name for way in found if way.package])
        say(
            *(f"skipped: {reason}" for reason in skipped.values()),
            f"medians over {rounds} interleaved rounds ({min(rounds, _LARGE_ROUNDS)} in rows of at least"
            f" {bytes_text(LARGE)}, without other libraries), in {scratch.parent}",
            "",
            printed.head(),
        )
        for cut in dict.fromkeys(case.cut for case in cases):
            check(cut, found, grid, comm, scratch)
        rows = []
        for case in cases:
            ways, n = found, rounds
            if case.n_bytes >= LARGE:
                ways, n = [way for way in found if way.name in _IN_LARGE_ROWS], min(rounds, _LARGE_ROUNDS)
            reason = comm.bcast(_no_space_for(case, ways, scratch))
            if reason:
                say(f"{case.name}: skipped, {reason}")
                continue
            rows.append(measure_row(case, ways, grid, comm, n, scratch))
            say(printed.line(rows[-1]))
        say("", *summary(rows))
        setting = session.setting | {"rounds": rounds, "skipped": skipped}
        setting["peers"] = {way.name: way.version() for way in found if way.package}
    if comm.rank == 0:
        write(SUBJECT, rows, setting, outputs)


def measure_row(
    case: StorageCase, found: Sequence[Way], grid: ProcessGrid, comm: Intracomm, rounds: int, scratch: Path
) -> RowFigures:
    """Measure one row.  Collective over the grid, a line of all ranks."""
    a = array_of(case, grid)
    by_name = {way.name: way for way in found}
    for way in found:
        way.hold(a)
    paths = {name: scratch / name.replace(" ", "_") for name in by_name}
    for name in _saved_by_others(found) if case.op == "load" else ():
        paths[name] = paths[by_name[name].reads]
    compute = _computing() if case.op == BESIDE else None

    def job(name: str) -> Callable[[], object]:
        way, path = by_name[name], paths[name]
        if compute is not None:
            return lambda: way.save_beside(path, compute)
        return lambda: getattr(way, case.op)(path)

    def prepare(name: str, number: int) -> None:
        """Outside of the times: an empty place to save to, or files that are on the disk only."""
        if name == _NOTHING:
            return
        if case.op != "load":
            _remove_all(comm, paths.values())
        elif comm.rank == 0:
            drop_from_memory(paths[name])

    try:
        if case.op == "load":
            for name in [name for name in by_name if name not in _saved_by_others(found)]:
                by_name[name].save(paths[name])
        nothing = compute or (lambda: None)
        jobs: Mapping[str, Callable[[], object]] = {_NOTHING: nothing, **{name: job(name) for name in by_name}}
        times = measure_once(comm, jobs, rounds, prepare)
    finally:
        _remove_all(comm, paths.values())
    figures = figures_of(times, dict.fromkeys(by_name, _NOTHING))
    return RowFigures(case, figures, {}, times.rounds, disturbed=is_disturbed(times))


def check(cut: str, found: Sequence[Way], grid: ProcessGrid, comm: Intracomm, scratch: Path) -> None:
    """Check that every way loads what it saved; RuntimeError on all ranks if not.  Collective."""
    a = array_of(StorageCase("load", cut, _CHECKED_BYTES), grid)
    for way in found:
        way.hold(a)
        path = scratch / f"checked_{way.name.replace(' ', '_')}"
        way.save(path)
        cells = way.load(path)
        n_wrong = int((cells != a.stored).sum()) if cells.shape == a.stored.shape else max(a.stored.size, 1)
        refuse_wrong_cells(way.name, f"cut in {cut}", n_wrong, comm)
        _remove_all(comm, [path])


def array_of(case: StorageCase, grid: ProcessGrid) -> ShardedArray:
    """The array to save, in memory as our constructors give it."""
    layout = case.layout(grid.grid)
    cells = cells_of(layout.core_box(grid.own_coords))
    local = grid.allocate(cells.shape, cells.dtype)
    local[...] = cells
    return ShardedArray(local, layout, grid)


# -- the surroundings ------------------------------------------------------------------------------------------


@contextmanager
def _scratch(comm: Intracomm, folder: str) -> Iterator[Path]:
    """A folder of our own in ``folder``, the same on all ranks, removed afterwards.  Raises OSError on all ranks."""
    made: str | OSError | None = None
    if comm.rank == 0:
        try:
            made = mkdtemp(prefix="bench_storage_", dir=folder)
        except OSError as error:
            made = error
    made = comm.bcast(made)
    if not isinstance(made, str):
        raise OSError(f"cannot write in {folder!r}: {made}")
    try:
        yield Path(made)
    finally:
        if comm.rank == 0:
            shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _opened(comm: Intracomm, requested: Sequence[str]) -> Iterator[tuple[list[Way], dict[str, str]]]:
    """Our ways, and those of the requested libraries that are installed; the reasons why others are skipped."""
    found, skipped = [kind(comm) for kind in OWN_WAYS], {}
    for kind in LIBRARY_WAYS:
        if kind.name in requested:
            way = kind(comm)
            try:
                way.open()
                found.append(way)
            except AbsentError as reason:
                skipped[kind.name] = str(reason)
    try:
        yield found, skipped
    finally:
        for way in found:
            way.close()


def _saved_by_others(found: Sequence[Way]) -> set[str]:
    """The ways that load what another of them has saved.  Local."""
    names = {way.name for way in found}
    return {way.name for way in found if way.reads in names}


def _computing() -> Callable[[], None]:
    """Work of about 0.1 s for one processor, in its own cache."""
    x = np.linspace(0.0, 1.0, _COMPUTED_CELLS)
    out = np.empty_like(x)

    def compute() -> None:
        for _ in range(_COMPUTED_TIMES):
            np.sin(x, out=out)

    return compute


def _no_space_for(case: StorageCase, found: Sequence[Way], scratch: Path) -> str:
    """The reason why a row cannot be measured here, or "".  Local."""
    if _COPIES * case.n_bytes > free_bytes():
        return f"it needs {bytes_text(_COPIES * case.n_bytes)} of memory"
    files = (len(found) - len(_saved_by_others(found)) if case.op == "load" else 1) + 1
    if files * case.n_bytes > shutil.disk_usage(scratch).free:
        return f"it needs {bytes_text(files * case.n_bytes)} of disk"
    return ""


def _remove_all(comm: Intracomm, paths: Iterable[Path]) -> None:
    """Remove files and folders.  Collective."""
    comm.Barrier()
    if comm.rank == 0:
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    comm.Barrier()
