"""The halo benchmark: `HaloExchange` against hand-written mpi4py, one row after the other.

In a row all contenders refresh the halos of the same arrays, from ``zeros``.  Before each update every rank writes new
values into its faces with one compiled function, the same for all; what that takes alone is measured in the same
turns, and its median is subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spmd_grid.array import zeros
from spmd_grid.bench.common.rows import OURS, figures_of, is_disturbed
from spmd_grid.bench.common.session import Session
from spmd_grid.bench.common.timing import Batch, measure
from spmd_grid.bench.halo.cases import HaloCase, fill_faces, wrong_cells
from spmd_grid.bench.halo.overlap import measure_overlap, overlap_lines
from spmd_grid.bench.halo.peers import hand_written
from spmd_grid.bench.halo.report import (
    IN_LOOP,
    MESSAGE,
    MESSAGE_IN_LOOP,
    RowFigures,
    summary,
    table_head,
    table_row,
    to_markdown,
)
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.exchange import HaloExchange

__all__ = ["measure_row", "run_bench"]

_REWRITING, _REWRITING_IN_LOOP = "rewriting", "rewriting in-loop"
_ROW_SECONDS = 3.5  # so that all rows stay below four minutes where updates are slow
_RANK_VALUES = 1 << 32  # between the first values that two ranks write


def run_bench(
    cases: Sequence[HaloCase], rounds: int, overlap_rounds: int = 0, json_path: str = "", markdown_path: str = ""
) -> None:
    """Measures and prints the rows of ``cases``, then the overlap if asked for.  Collective over all MPI processes."""
    grid = init_grid((-1,))
    session = Session()
    comm, say = session.comm, session.say
    rows, overlap, lines = [], [], []
    if cases:
        say(f"medians over {rounds} interleaved rounds, without the time that rewriting the faces takes")
        say("ours: called from Python, as those by hand; message: ours without shared memory\n")
        say(table_head())
        for case in cases:
            rows.append(measure_row(case, grid, comm, rounds))
            say(table_row(rows[-1]))
        lines = summary(rows)
        say("", *lines)
    if overlap_rounds:
        overlap = measure_overlap(grid, comm, overlap_rounds)
        say("", *overlap_lines(overlap))
    figures = {"rows": [row.to_dict() for row in rows], "summary": lines, "overlap": overlap}
    session.write_json(json_path, figures)
    caption = (
        f"Microseconds per update; {session.place}; medians over {rounds} interleaved rounds of"
        " `python -m spmd_grid bench halo`."
    )
    session.write_markdown(markdown_path, to_markdown(rows, caption, overlap_lines(overlap) if overlap else []))


def measure_row(case: HaloCase, grid: ProcessGrid, comm, rounds: int) -> RowFigures:
    """One row: checks every contender, then times all in turns.  Collective over the grid, a line of all ranks."""
    from spmd_grid.bench.halo import kernels as halo_kernels

    sharding = Sharding(grid, case.split_axes, halo_sizes=[case.width, case.width])
    shape = case.global_shape(grid.size)
    arrays = [zeros(shape, sharding, grid) for _ in range(case.n_fields)]
    fields = [array.local for array in arrays]
    views = halo_kernels.three_sides(fields, case.cut)
    rewrite = halo_kernels.rewrite_faces(case.n_fields)
    width, first = case.width, grid.rank * _RANK_VALUES

    def alone(n: int) -> None:
        for value in range(first, first + n):
            rewrite(views, width, value)

    def from_python(update: Callable, *args) -> Batch:
        def batch(n: int) -> None:
            for value in range(first, first + n):
                rewrite(views, width, value)
                update(*args)

        return batch

    def in_loop(halo) -> Batch:
        loop = halo_kernels.updating_loop(case.n_fields)
        return lambda n: loop(halo, *fields, views, width, first, n)

    rewriting_loop = halo_kernels.rewriting_loop(case.n_fields)
    contenders = {_REWRITING: alone, _REWRITING_IN_LOOP: lambda n: rewriting_loop(views, width, first, n)}
    with (
        HaloExchange(grid, sharding, shape, "float64", periodic=True, n_fields=case.n_fields) as halo,
        HaloExchange(
            grid, sharding, shape, "float64", periodic=True, n_fields=case.n_fields, path="message"
        ) as by_messages,
        hand_written(comm, fields, case.cut, case.width) as by_hand,
    ):
        plan = halo.describe()
        for name, exchange in ((OURS, halo), (MESSAGE, by_messages)):
            _check(name, lambda exchange=exchange: exchange.update(*arrays), case, fields, comm)
            contenders[name] = from_python(exchange.update, *arrays)
        for name, exchange in ((IN_LOOP, halo), (MESSAGE_IN_LOOP, by_messages)):
            contenders[name] = in_loop(exchange)
            _check_loop(name, contenders[name], case, fields, views, comm)
        for name, update in by_hand.items():
            _check(name, update, case, fields, comm)
            contenders[name] = from_python(update)
        times = measure(comm, contenders, rounds, at_most_seconds=_ROW_SECONDS)

    loops = IN_LOOP, MESSAGE_IN_LOOP
    rewriting = _REWRITING, _REWRITING_IN_LOOP
    bases = {name: rewriting[name in loops] for name in contenders if name not in rewriting}
    rewriting_us = {name: 1e6 * times.median(name) for name in rewriting}
    rounds = len(times.seconds[_REWRITING])
    return RowFigures(case, figures_of(times, bases), rewriting_us, rounds, plan, is_disturbed(times))


def _check(name: str, update: Callable, case: HaloCase, fields, comm) -> None:
    """One update must bring what the neighbours wrote, to every cell of the halo."""
    fill_faces(fields, case.cut, case.width, comm.rank)
    comm.Barrier()
    update()
    _refuse(name, wrong_cells(fields, case.cut, case.width, comm.rank, comm.size), case, comm)


def _check_loop(name: str, batch: Batch, case: HaloCase, fields, views, comm) -> None:
    """The last of three steps in a compiled loop must have brought the third values."""
    from spmd_grid.bench.halo.kernels import wrong_halos

    fill_faces(fields, case.cut, case.width, comm.rank)
    comm.Barrier()
    batch(3)
    below, above = ((comm.rank + step) % comm.size * _RANK_VALUES + 2 for step in (-1, 1))
    _refuse(name, wrong_halos(views, case.width, below, above), case, comm)


def _refuse(name: str, wrong: int, case: HaloCase, comm) -> None:
    wrong = comm.allgather(wrong)
    if any(wrong):
        raise RuntimeError(f"{name} gets the halo wrong in '{case.name}': wrong cells by rank: {wrong}")
