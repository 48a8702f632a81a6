"""The shapes benchmark, row by row: the first run of an operation, its later runs, and the same by numpy on a block."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from spmd_grid.array.constructors import from_function, from_global, zeros
from spmd_grid.bench.common.report import Outputs, write_files
from spmd_grid.bench.common.rows import is_disturbed
from spmd_grid.bench.common.session import Session, setting_text
from spmd_grid.bench.common.timing import calls_of, measure
from spmd_grid.bench.shapes.cases import OPERATIONS, Parts, ShapesCase
from spmd_grid.bench.shapes.report import ShapesRow, summary, table
from spmd_grid.grid.process_grid import init_grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.exchange import HaloExchange
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.ops.all_to_all import all_to_all
from spmd_grid.ops.broadcast import broadcast
from spmd_grid.ops.gather import gather
from spmd_grid.ops.reduce_scatter import reduce_scatter
from spmd_grid.ops.scatter import scatter
from spmd_grid.ops.shift import shift
from spmd_grid.storage.checkpoint.load import load
from spmd_grid.storage.checkpoint.save import save

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["measure_row", "parts_of", "run_bench"]

_ROW_SECONDS = 0.5
sg = SimpleNamespace(
    HaloExchange=HaloExchange,
    Sharding=Sharding,
    all_gather=all_gather,
    all_reduce=all_reduce,
    all_to_all=all_to_all,
    broadcast=broadcast,
    from_function=from_function,
    from_global=from_global,
    gather=gather,
    init_grid=init_grid,
    load=load,
    reduce_scatter=reduce_scatter,
    save=save,
    scatter=scatter,
    shift=shift,
    zeros=zeros,
)  # as programs call it
_SMALLER = 16  # the arrays on which an operation first runs, which loads what it needs


def run_bench(cases: Sequence[ShapesCase], rounds: int, outputs: Outputs) -> None:
    """Measure and print the rows of ``cases``.  Collective over all MPI processes."""
    grid, session = sg.init_grid((-1,)), Session()
    session.say(
        f"medians over {rounds} interleaved rounds, of the slowest rank; kernels are loaded", "", table().head()
    )
    folder = session.comm.bcast(mkdtemp() if session.comm.rank == 0 else "")
    rows = []
    try:
        for case in cases:
            rows.append(measure_row(case, grid, session.comm, rounds, Path(folder)))
            session.say(table().line(rows[-1]))
    finally:
        if session.comm.rank == 0:
            rmtree(folder, ignore_errors=True)
    session.say("", *summary(rows))
    if session.comm.rank == 0:
        caption = f"First and later runs; {setting_text(session.setting)}; `python -m spmd_grid bench shapes`."
        write_files(outputs, session.setting | {"rounds": rounds}, caption, table(), rows, summary(rows))


def measure_row(case: ShapesCase, grid: Any, comm: Intracomm, rounds: int, folder: Path) -> ShapesRow:
    """Measure one row.  Collective over the grid, which is a line of all ranks."""
    operation = OPERATIONS[case.operation]
    small = tuple([n // _SMALLER if n > _SMALLER * grid.size * _SMALLER else n for n in case.shape])
    operation.run(parts_of(case, small, grid, folder))
    parts = parts_of(case, case.shape, grid, folder)
    block = parts.a.core.copy()

    def run() -> None:
        operation.run(parts)

    first = _seconds(comm, run)
    contenders: dict[str, Callable[[], object]] = {"later": run, "copy": block.copy}
    if operation.numpy is not None:
        by_numpy = operation.numpy
        contenders["numpy"] = lambda: by_numpy(block, parts)
    batches = {name: calls_of(each) for name, each in contenders.items()}
    times = measure(comm, batches, rounds, at_most_seconds=_ROW_SECONDS)
    disturbed = is_disturbed(times)
    us = {name: 1e6 * times.median(name) for name in contenders}
    return ShapesRow(case, 1e6 * first, us["later"], us["copy"], us.get("numpy", 0.0), operation.fixed_ms, disturbed)


def parts_of(case: ShapesCase, shape: tuple[int, ...], grid: Any, folder: Path) -> Parts:
    """The arguments of an operation.  Collective over the grid."""
    axes = [[0] if d == case.dim else [] for d in range(len(shape))]
    a = sg.from_function(lambda *i: sum(i) * 1.0, shape, sg.Sharding(grid, axes), grid)
    return Parts(sg, grid, a, np.ones(shape), folder)


def _seconds(comm: Intracomm, run: Callable[[], None]) -> float:
    """The time of one run, on the slowest rank.  Collective."""
    comm.Barrier()
    start = time.perf_counter()
    run()
    return max(comm.allgather(time.perf_counter() - start))
