"""The arrays benchmark: numpy on sharded arrays, row by row.

In a row an expression is evaluated on sharded arrays; by numpy on this rank's blocks alone, as if nothing had to be
sent; by hand, on blocks, with our operations; and by other libraries.  All results but numpy's are checked on small
blocks first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.bench.arrays.by_hand import by_hand
from spmd_grid.bench.arrays.cases import CHECKED_SIDE, OPS, RANDOM, ArraysCase, block_of
from spmd_grid.bench.arrays.libraries import ARRAY_LIBRARY_TYPES
from spmd_grid.bench.arrays.report import BY_HAND, NUMPY, RowFigures, summary, table
from spmd_grid.bench.common.contenders import refuse_wrong_cells
from spmd_grid.bench.common.report import Outputs, Subject
from spmd_grid.bench.common.rows import OURS, figures_of, is_disturbed
from spmd_grid.bench.common.timing import Batch, calls_of, measure
from spmd_grid.bench.libraries.benchmark import measure_beside_libraries
from spmd_grid.bench.libraries.installed import Libraries
from spmd_grid.bench.libraries.library import DeclinedError
from spmd_grid.errors import ImplicitGatherError
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.random.generator import Generator

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["SUBJECT", "check_ours_and_by_hand", "measure_row", "run_bench"]

SUBJECT = Subject("arrays", "Time per evaluation", "bytes of each rank's block", ArraysCase, RowFigures, table, summary)
_LOOP = "an empty loop"
_ROW_SECONDS = 4.0
_COPIES = 16  # of a block, on each rank

Call = Callable[[], Any]


def run_bench(cases: Sequence[ArraysCase], rounds: int, requested: Sequence[str], outputs: Outputs) -> None:
    """Measure and print the rows of ``cases``, with the ``requested`` libraries.  Collective over all MPI processes."""
    grid = init_grid((-1,))

    def row_of(case: ArraysCase, comm: Intracomm, libraries: Libraries) -> RowFigures:
        try:
            return measure_row(case, grid, comm, rounds, libraries)
        except ImplicitGatherError as error:
            raise DeclinedError(str(error)) from None

    notes = [
        f"medians over {rounds} interleaved rounds",
        "numpy: on this rank's blocks alone, without messages; by hand: on blocks, with our operations, into out=",
    ]

    def needed_bytes(case: ArraysCase, ranks: int) -> int:
        return _COPIES * ranks * case.n_bytes

    measure_beside_libraries(
        SUBJECT, ARRAY_LIBRARY_TYPES, requested, cases, row_of, needed_bytes, rounds, notes, outputs
    )


def measure_row(case: ArraysCase, grid: ProcessGrid, comm: Intracomm, rounds: int, libraries: Libraries) -> RowFigures:
    """Measure one row: check every contender on small blocks, then time them all in turns.

    Collective over the grid, which is a line of all ranks.
    """
    check_ours_and_by_hand(ArraysCase(case.op, CHECKED_SIDE), grid, comm)
    skipped: dict[str, str] = {}
    a, b = _operands(case, grid)
    with ExitStack() as stack:
        # Expressions that change ``a`` change it in turns, all by the same small numbers.
        calls = {
            OURS: _ours(case, a, b),
            NUMPY: _numpy(case, a, b),
            BY_HAND: by_hand(case, grid, a.local, b.local, stack).call,
        }
        of_libraries = libraries.contenders(case, a.local, b.local, stack, skipped)
        calls |= {name: contender.call for name, contender in of_libraries.items()}
        batches: dict[str, Batch] = {_LOOP: calls_of(None)} | {name: calls_of(call) for name, call in calls.items()}
        times = measure(comm, batches, rounds, at_most_seconds=_ROW_SECONDS)
    figures = figures_of(times, dict.fromkeys(calls, _LOOP))
    figures |= libraries.own_figures(case, rounds, _ROW_SECONDS, skipped)
    return RowFigures(case, figures, {}, times.rounds, disturbed=is_disturbed(times), skipped=skipped)


def check_ours_and_by_hand(case: ArraysCase, grid: ProcessGrid, comm: Intracomm) -> None:
    """Check that both give numpy's result on the global arrays; RuntimeError on all ranks if not.  Collective."""
    if case.op == RANDOM:
        return
    expected = np.asarray(OPS[case.op].call(np, *case.whole(comm.size)))
    found = _ours(case, *_operands(case, grid))()
    cells, own = found.global_slices if isinstance(found, ShardedArray) else (), getattr(found, "local", found)
    refuse_wrong_cells(OURS, case.name, _n_wrong(own, expected[cells]), comm)
    with ExitStack() as stack:
        a, b = _operands(case, grid)
        way = by_hand(case, grid, a.local, b.local, stack)
        refuse_wrong_cells(BY_HAND, case.name, _n_wrong(way.call(), expected[way.cells]), comm)


def _n_wrong(found: Any, expected: np.ndarray) -> int:
    found = np.asarray(found)
    return int((~np.isclose(found, expected)).sum()) if found.shape == expected.shape else max(expected.size, 1)


# -- calls to time ---------------------------------------------------------------------------------------------


def _operands(case: ArraysCase, grid: ProcessGrid) -> tuple[ShardedArray, ShardedArray]:
    """Both operands, in memory as our constructors give it."""
    arrays = []
    for number, layout in enumerate(case.layouts(grid.grid)):
        block = block_of(layout.core_box(grid.own_coords), number)
        local = grid.allocate(block.shape, block.dtype)
        local[...] = block
        arrays.append(ShardedArray(local, layout, grid))
    return arrays[0], arrays[1]


def _ours(case: ArraysCase, a: ShardedArray, b: ShardedArray) -> Call:
    call = OPS[case.op].call
    if case.op == RANDOM:
        draw, shape, sharding, grid = Generator(1).standard_normal, a.shape, a.sharding, a.grid
        return lambda: draw(shape, sharding, grid)
    if OPS[case.op].has_halos:
        return _on_stale_halos(call, a, b)
    return lambda: call(np, a, b)


def _on_stale_halos(call: Callable[..., Any], a: ShardedArray, b: ShardedArray) -> Call:
    """The call on ``a`` with halos, which are updated once per call, as after every step of a program."""
    with_halos = Sharding(a.grid, a.sharding.split_axes, halo_sizes=[1, 1])
    u = a.reshard(with_halos)
    assert u is not None  # all processes are on the grid

    def call_once() -> Any:
        u.mark_dirty()
        return call(np, u, b)

    return call_once


def _numpy(case: ArraysCase, a: ShardedArray, b: ShardedArray) -> Call:
    """numpy on this rank's block of ``a``, and on a block of ``b`` that fits it."""
    op, x = OPS[case.op], a.local
    if case.op == RANDOM:
        draw, shape = np.random.Generator(np.random.Philox(a.grid.rank)).standard_normal, x.shape
        return lambda: draw(shape)
    y = b.local if op.b_cut == "as a" else np.ones((case.side, case.side))
    if op.is_view:
        return lambda: op.call(np, x, y).copy()
    return lambda: op.call(np, x, y)
