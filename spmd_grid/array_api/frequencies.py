"""The frequencies of the cells that Fourier transforms give, as sharded arrays."""

from __future__ import annotations

from numbers import Real

import numpy as np

from spmd_grid.array.constructors import from_function
from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.array_api.defaults import ShardingRule, sharding_and_grid
from spmd_grid.errors import ArgumentError, ShapeError
from spmd_grid.grid.box import as_ints
from spmd_grid.grid.process_grid import ProcessGrid

__all__ = ["frequencies"]


def frequencies(name: str, n: int, d: float, sharding: ShardingRule | None, grid: ProcessGrid | None) -> ShardedArray:
    """The frequencies of ``n`` cells at a distance of ``d``, by the name of numpy's function.  Collective."""
    found = as_ints([n])
    if found is None or found[0] < 1:
        raise ShapeError(f"{name}: n is {n!r}; it must be a whole number, at least 1")
    if not isinstance(d, Real) or not d:
        raise ArgumentError(f"{name}: d is {d!r}; it must be a real number other than 0")
    n = found[0]
    cells = middle = n // 2 + 1
    if name == "fftfreq":
        cells, middle = n, (n - 1) // 2 + 1
    step = 1.0 / (n * float(d))

    def frequency(k: np.ndarray) -> np.ndarray:
        return np.where(k < middle, k, k - n) * step

    return from_function(frequency, (cells,), *sharding_and_grid(name, (cells,), sharding, grid), dtype="float64")
