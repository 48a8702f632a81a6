"""The rows of the resharding benchmark: arrays, the dimensions they are cut along, and the correct results."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding

__all__ = ["ReshardCase", "all_cases", "cells_of", "quick_cases"]

_SQUARES = [(n, n) for n in (64, 128, 256, 512, 1024, 2048, 4096, 8192)]
_CUBES = [(n, n, n) for n in (32, 128, 256, 512)]
_UNEVEN = (1023, 4097)
_DOUBLE = 8  # bytes


@dataclass(frozen=True)
class ReshardCase:
    """A global array of doubles, cut along dimension ``before``, is resharded to be cut along dimension ``after``."""

    shape: tuple[int, ...]
    before: int
    after: int

    @property
    def name(self) -> str:
        shape = "x".join(map(str, self.shape)) if len(set(self.shape)) > 1 else f"{self.shape[0]}^{len(self.shape)}"
        return f"{len(self.shape)}-d {shape} {self._cuts}"

    @property
    def family(self) -> str:
        """The name of the rows that differ only in size."""
        return f"{len(self.shape)}-d {self._cuts}"

    @property
    def _cuts(self) -> str:
        names = {0: "rows", 1: "columns"} if len(self.shape) == 2 else {}
        return f"{names.get(self.before, self.before)} to {names.get(self.after, self.after)}"

    @property
    def n_bytes(self) -> int:
        """Bytes of the global array."""
        return _DOUBLE * prod(self.shape)

    @property
    def is_first_to_last(self) -> bool:
        """Whether the cut moves from the first dimension to the last: only the boxes to send are strided."""
        return (self.before, self.after) == (0, len(self.shape) - 1)

    def layouts(self, grid: Grid) -> tuple[Layout, Layout]:
        """The layouts before and after, on a grid of one axis."""

        def layout(cut: int) -> Layout:
            return Layout(Sharding(grid, [[0] if dim == cut else [] for dim in range(len(self.shape))]), self.shape)

        return layout(self.before), layout(self.after)


def all_cases() -> list[ReshardCase]:
    flat = [ReshardCase(shape, *cuts) for shape in (*_SQUARES, _UNEVEN) for cuts in ((0, 1), (1, 0))]
    return flat + [ReshardCase(shape, *cuts) for shape in _CUBES for cuts in ((0, 2), (2, 0), (0, 1), (1, 2))]


def quick_cases() -> list[ReshardCase]:
    """A few rows of each kind, all of them small."""
    return [
        ReshardCase((64, 64), 0, 1),
        ReshardCase((512, 512), 0, 1),
        ReshardCase((512, 512), 1, 0),
        ReshardCase(_CUBES[0], 0, 2),
    ]


def cells_of(box: Box, shape: tuple[int, ...], first: int = 0) -> np.ndarray:
    """The cells of ``box`` of a global array of ``shape`` whose cells are numbered in row-major order from ``first``.

    >>> cells_of(Box((0, 1), (2, 3)), (2, 4), 10)
    array([[11., 12.],
           [15., 16.]])
    """
    cells = np.full(box.shape, float(first))
    for dim, (start, stop) in enumerate(zip(box.starts, box.stops, strict=True)):
        stride, n_later_dims = prod(shape[dim + 1 :]), box.ndim - dim - 1
        cells += (stride * np.arange(start, stop)).reshape(-1, *[1] * n_later_dims)
    return cells
