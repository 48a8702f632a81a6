"""One numpy function, traced and partitioned, beside the same by hand: what the programs of this folder share.

Each program states a `Problem`; `check` runs both versions, compares them with numpy on the whole arrays, and prints
the bytes that a process receives in the traced one.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import spmd_grid as sg


class Problem(NamedTuple):
    """A numpy ``function`` of global ``arrays``, with the shardings of its arguments and of its only result.

    ``by_hand(grid, *local)`` prepares the version by hand for this process's parts of the arguments: a call that gives
    its part of the result.
    """

    function: Callable[..., Any]
    arrays: Sequence[np.ndarray]
    in_shardings: Sequence[sg.Sharding | None]
    out_sharding: sg.Sharding
    by_hand: Callable[..., Callable[[], np.ndarray]]

    def partition(self, grid: sg.ProcessGrid) -> Any:
        """The traced function, spread over the grid."""
        program = sg.trace(self.function, *[sg.ArraySpec(x.shape, x.dtype) for x in self.arrays])
        return sg.partition(program, grid, self.in_shardings, [self.out_sharding])


def near_square(n: int) -> tuple[int, int]:
    """Two factors of ``n`` that are as equal as possible, the smaller one first."""
    rows = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
    return rows, n // rows


def check(name: str, problem: Problem, grid: sg.ProcessGrid, tolerance: float) -> int:
    """Run both versions and compare them with numpy; 0 if both are right."""
    part = problem.partition(grid)
    arrays = [sg.from_global(x, s, grid) for x, s in zip(problem.arrays, part.in_shardings)]
    call = problem.by_hand(grid, *[x.local for x in arrays])

    traced = part.run(grid, *arrays).to_global()
    expected = problem.function(*problem.arrays)
    by_hand = sg.from_local(call(), problem.out_sharding, grid, expected.shape).to_global()
    errors = [float(np.abs(found - expected).max() / np.abs(expected).max()) for found in (traced, by_hand)]
    if grid.rank == 0:
        moved = sum(each.bytes for each in part.collectives())
        print(
            f"{name}: {grid.size} rank{'s' if grid.size > 1 else ''}, {len(part.collectives())} communications of"
            f" {moved} bytes: relative errors against numpy {errors[0]:.1e} traced, {errors[1]:.1e} by hand"
        )
    return 0 if max(errors) <= tolerance else 1
