"""The rows of the storage benchmark: an array of doubles, saved or loaded, cut in rows or in columns.

The smaller one is also saved while the program computes: what that adds to its time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spmd_grid.formatting import bytes_text
from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.typing import Shape

__all__ = ["BESIDE", "CUTS", "OPS", "STORAGE_SIZES", "Sized", "StorageCase", "all_cases", "cells_of", "quick_cases"]

OPS = "save", "load"
BESIDE = "save beside"  # computing, whose own time is not counted
CUTS = {"rows": [[0]], "columns": [[], [0]]}
STORAGE_SIZES = 1 << 26, 1 << 31
_QUICK_SIZE = 1 << 24
_ROW_CELLS = 1 << 11  # so that a block of columns lies in pieces of some KiB


@dataclass(frozen=True)
class StorageCase:
    """An operation on an array of ``n_bytes`` in all, cut in ``cut`` over a line of ranks."""

    op: str
    cut: str
    n_bytes: int

    @property
    def name(self) -> str:
        return f"{self.op} {bytes_text(self.n_bytes)}, {self.cut}"

    @property
    def shape(self) -> Shape:
        return max(self.n_bytes // (8 * _ROW_CELLS), 1), _ROW_CELLS

    def layout(self, grid: Grid) -> Layout:
        """The layout of the array on a line of devices."""
        return Layout(Sharding(grid, CUTS[self.cut]), self.shape)


def cells_of(box: Box) -> np.ndarray:
    """Cells of the global array, of which no two are equal."""
    i, j = np.ogrid[box.slices()]
    return (i * _ROW_CELLS + j).astype(np.float64)


def all_cases(sizes: tuple[int, ...] = STORAGE_SIZES) -> list[StorageCase]:
    cases = [StorageCase(op, cut, size) for size in sizes for cut in CUTS for op in OPS]
    return [*cases, StorageCase(BESIDE, "rows", sizes[0])]


def quick_cases() -> list[StorageCase]:
    return all_cases((_QUICK_SIZE,))


class Sized:
    """The rows of arrays of one size, by the names that the command line knows."""

    def __init__(self, n_bytes: int):
        self._cases = all_cases((n_bytes,))

    def all_cases(self) -> list[StorageCase]:
        return self._cases

    def quick_cases(self) -> list[StorageCase]:
        return self._cases
