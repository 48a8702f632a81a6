"""The part of a 16 MiB exchange that hides behind 20 ms of computing.

Every rank sends 8 MiB to both sides while it computes, in tiles of about 1 ms, on an array of its own.  The visible
time of the exchange is all - compute; the hidden part is 1 - (all - compute) / exchange: 1 if the exchange costs no
time, 0 if it takes as long as it does after the computing, which leaves none of its cells in a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spmd_grid.array import zeros
from spmd_grid.bench.common.timing import calls_per_batch, measure_once
from spmd_grid.bench.halo.peers import split_by_hand
from spmd_grid.formatting import aligned
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.exchange import HaloExchange

if TYPE_CHECKING:
    from spmd_grid.bench.common.mpi import Intracomm

__all__ = ["OverlapFigures", "measure_overlap", "overlap_lines"]

_COLUMNS, _WIDTH = 4096, 256  # a face of 8 MiB
_TILES, _TILE_SECONDS = 20, 1e-3
_TRIAL_CELLS, _TRIAL_PIECES = 1 << 12, 1 << 10  # to time a tile with; together larger than a cache
_COMPUTE, _EXCHANGE, _ALL = "compute", "exchange", "all"

Call = Callable[[], object]


class OverlapFigures(NamedTuple):
    """Milliseconds of a contender's exchange alone, of computing alone, of both, and what follows."""

    contender: str
    exchange_ms: float
    compute_ms: float
    all_ms: float
    visible_ms: float
    hidden: float


class _Split(NamedTuple):
    """An exchange as one call, and as a start, an optional poke between tiles, and a wait."""

    update: Call
    start: Call
    poke: Call | None
    wait: Call

    def around(self, compute: Callable[[Call | None], None]) -> Call:
        def run() -> None:
            self.start()
            compute(self.poke)
            self.wait()

        return run


def measure_overlap(grid: ProcessGrid, comm: Intracomm, rounds: int) -> list[OverlapFigures]:
    """Time every contender's exchange alone, computing alone, and both.  Collective.

    Each is timed once per round, in an order that changes from round to round.
    """
    from spmd_grid.bench.halo import kernels

    shape = (2 * _WIDTH * grid.size, _COLUMNS)
    sharding = Sharding(grid, [[0], []], halo_sizes=[_WIDTH, _WIDTH])
    u = zeros(shape, sharding, grid)
    views = kernels.three_sides([u.local], 0)
    rewrite = kernels.rewrite_faces(1)
    tile, cells = _tiles(comm, kernels.stream)

    def compute(between: Call | None) -> None:
        for i in range(_TILES):
            kernels.stream(cells, i * tile, (i + 1) * tile)
            if between is not None:
                between()

    def prepare(name: tuple[str, str], i: int) -> None:
        rewrite(views, _WIDTH, i)
        if name[1] == _EXCHANGE:
            compute(None)

    with (
        HaloExchange(grid, sharding, shape, "float64", periodic=True) as halo,
        HaloExchange(grid, sharding, shape, "float64", periodic=True, path="message") as by_messages,
        split_by_hand(comm, u.local, 0, _WIDTH) as (start, test, wait),
    ):

        def start_and_wait() -> None:
            start()
            wait()

        exchanges = {
            "spmd_grid": _Split(lambda: halo.update(u), lambda: halo.start(u), halo.poke, halo.wait),
            "spmd_grid message path": _Split(
                lambda: by_messages.update(u), lambda: by_messages.start(u), by_messages.poke, by_messages.wait
            ),
            "mpi4py": _Split(start_and_wait, start, None, wait),
            "mpi4py, Testall between tiles": _Split(start_and_wait, start, test, wait),
        }
        jobs: dict[tuple[str, str], Call] = {("", _COMPUTE): lambda: compute(None)}
        for name, exchange in exchanges.items():
            jobs |= {(name, _EXCHANGE): exchange.update, (name, _ALL): exchange.around(compute)}
        times = measure_once(comm, jobs, rounds, prepare)
    ms = {name: 1e3 * times.median(name) for name in jobs}
    return [_figures(name, ms[name, _EXCHANGE], ms["", _COMPUTE], ms[name, _ALL]) for name in exchanges]


def _figures(name: str, exchange: float, compute: float, both: float) -> OverlapFigures:
    visible = both - compute
    return OverlapFigures(name, exchange, compute, both, visible, 1 - visible / exchange)


def overlap_lines(figures: Sequence[OverlapFigures]) -> list[str]:
    """The figures as a table, a line each."""
    table: list[tuple[str, ...]] = [("", "exchange", "compute", "both", "visible", "hidden")]
    for row in figures:
        times = [f"{ms:.2f}" for ms in (row.exchange_ms, row.compute_ms, row.all_ms, row.visible_ms)]
        table.append((row.contender, *times, f"{100 * row.hidden:.0f} %"))
    return [f"Overlap: 8 MiB to each side behind {_TILES} tiles of computing, ms", *aligned(table)]


def _tiles(comm: Intracomm, stream: Callable[[np.ndarray, int, int], None]) -> tuple[int, np.ndarray]:
    """Number of cells that take the time of a tile, the same on all ranks, and cells for all tiles.  Collective."""
    trial = np.ones(_TRIAL_CELLS * _TRIAL_PIECES)

    def batch(n: int) -> None:
        for i in range(n):
            start = i % _TRIAL_PIECES * _TRIAL_CELLS
            stream(trial, start, start + _TRIAL_CELLS)

    tile = _TRIAL_CELLS * calls_per_batch(comm, batch, _TILE_SECONDS)
    return tile, np.ones(_TILES * tile)
