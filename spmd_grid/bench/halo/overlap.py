"""How much of an exchange of 16 MiB hides behind 20 ms of computing.

Every rank sends 8 MiB to both sides while it computes, in tiles of about 1 ms, on an array of its own.  What remains
visible of the exchange is all - compute; the hidden part is 1 - (all - compute) / exchange: 1 where the exchange costs
nothing, 0 where it takes as long as after the computing, which leaves none of its cells in a cache.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spmd_grid.array import zeros
from spmd_grid.bench.common.timing import calls_per_batch, measure_once
from spmd_grid.bench.halo.peers import split_by_hand
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.exchange import HaloExchange

__all__ = ["measure_overlap", "overlap_lines"]

_COLUMNS, _WIDTH = 4096, 256  # a face of 8 MiB
_TILES, _TILE_SECONDS = 20, 1e-3
_TRIAL_CELLS, _TRIAL_PIECES = 1 << 12, 1 << 10  # that a tile is measured with; together larger than a cache


def measure_overlap(grid: ProcessGrid, comm, rounds: int) -> list[dict]:
    """Per contender: milliseconds of the exchange alone, of computing alone, and of both.  Collective.

    Everything is timed once per round, in an order that changes from round to round.
    """
    from spmd_grid.bench.halo import kernels as halo_kernels

    shape = (2 * _WIDTH * grid.size, _COLUMNS)
    sharding = Sharding(grid, [[0], []], halo_sizes=[_WIDTH, _WIDTH])
    u = zeros(shape, sharding, grid)
    views = halo_kernels.three_sides([u.local], 0)
    rewrite = halo_kernels.rewrite_faces(1)
    tile, cells = _tiles(comm, halo_kernels.stream)

    def compute(between: Callable | None) -> None:
        for i in range(_TILES):
            halo_kernels.stream(cells, i * tile, (i + 1) * tile)
            if between is not None:
                between()

    with (
        HaloExchange(grid, sharding, shape, "float64", periodic=True) as halo,
        HaloExchange(grid, sharding, shape, "float64", periodic=True, path="message") as by_messages,
        split_by_hand(comm, u.local, 0, _WIDTH) as (start, test, wait),
    ):
        exchanges = {
            "spmd_grid": (lambda: halo.update(u), lambda: halo.start(u), halo.poke, halo.wait),
            "spmd_grid message path": (
                lambda: by_messages.update(u),
                lambda: by_messages.start(u),
                by_messages.poke,
                by_messages.wait,
            ),
            "mpi4py": (lambda: (start(), wait()), start, None, wait),
            "mpi4py, Testall between tiles": (lambda: (start(), wait()), start, test, wait),
        }
        jobs: dict[tuple, Callable] = {("compute",): lambda: compute(None)}
        for name, (update, begin, poke, end) in exchanges.items():
            jobs[name, "exchange"] = update
            jobs[name, "all"] = _in_turn(begin, compute, poke, end)

        def prepare(name: tuple, i: int) -> None:
            rewrite(views, _WIDTH, i)
            if name[-1] == "exchange":
                compute(None)

        times = measure_once(comm, jobs, rounds, prepare)
    taken = {name: 1e3 * times.median(name) for name in jobs}
    computing = taken["compute",]
    return [
        {
            "contender": name,
            "exchange_ms": taken[name, "exchange"],
            "compute_ms": computing,
            "all_ms": taken[name, "all"],
            "visible_ms": taken[name, "all"] - computing,
            "hidden": 1 - (taken[name, "all"] - computing) / taken[name, "exchange"],
        }
        for name in exchanges
    ]


def overlap_lines(figures: list[dict]) -> list[str]:
    """The figures as a table, a line each."""
    lines = [
        f"Overlap: 8 MiB to each side behind {_TILES} tiles of computing, ms",
        f"{'':32s}{'exchange':>10s}{'compute':>10s}{'both':>10s}{'visible':>10s}{'hidden':>10s}",
    ]
    for row in figures:
        times = "".join(f"{row[name]:10.2f}" for name in ("exchange_ms", "compute_ms", "all_ms", "visible_ms"))
        lines.append(f"{row['contender']:32s}{times}{100 * row['hidden']:8.0f} %")
    return lines


def _in_turn(begin: Callable, compute: Callable, poke: Callable | None, end: Callable) -> Callable:
    def run() -> None:
        begin()
        compute(poke)
        end()

    return run


def _tiles(comm, stream: Callable) -> tuple[int, np.ndarray]:
    """How many cells take a tile's time to go through, alike on all ranks, and cells for all tiles.  Collective."""
    trial = np.ones(_TRIAL_CELLS * _TRIAL_PIECES)

    def batch(n: int) -> None:
        for i in range(n):
            at = i % _TRIAL_PIECES * _TRIAL_CELLS
            stream(trial, at, at + _TRIAL_CELLS)

    tile = _TRIAL_CELLS * calls_per_batch(comm, batch, _TILE_SECONDS)
    return tile, np.ones(_TILES * tile)
