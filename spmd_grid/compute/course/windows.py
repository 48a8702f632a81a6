"""Blocks with halos: the cells of an operand that the steps of a function on one device read.

sliding windows of 3 cells over 7, on 3 devices; 5 results are cut into 2, 2, 1

results      0 1 | 2 3 | 4
cells read   0 1 2 3
                 2 3 4 5
                     4 5 6
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.splits import block_starts, is_sharded
from spmd_grid.functions.interface import Halos
from spmd_grid.grid.derived_starts import mapped, with_end, with_start
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["WindowCells", "Window", "target_of"]


class WindowCells:
    """The cells that the steps of one device read, of an array of ``shape``; those outside the array are 0.

    ``sharding``: of the function's steps, of extents ``steps`` per dimension of the array (1 where none runs).
    ``target``: that in which devices hold these cells, None where the array is plain, or nothing is read.
    """

    def __init__(
        self, shape: Shape, is_spread: bool, sharding: Sharding, steps: Shape, halos: Halos, coords: MultiIndex
    ):
        own = sharding.core_box(steps, coords)
        self.target = target_of(shape, sharding, steps, halos) if is_spread and 0 not in steps else None
        self._shape: Shape = ()
        self._cells: list[slice] = []
        self._inside: list[slice] = []
        held = [(0, 0 if is_spread else n) for n in shape]
        if self.target is not None:
            box = Layout(self.target, shape).local_box(coords)
            held = list(zip(box.starts, box.stops))
        for d, (n, (low, high), (held_start, held_stop)) in enumerate(zip(shape, halos, held)):
            start, stop = own.starts[d] - low, own.stops[d] + high
            begin = max(start, held_start, 0)
            end = max(min(stop, held_stop, n), begin)
            self._shape += (stop - start,)
            self._cells.append(slice(begin - held_start, end - held_start))
            self._inside.append(slice(begin - start, end - start))

    def block(self, array: np.ndarray) -> np.ndarray:
        """The cells, of what the device holds in ``target``, or of the plain array.  Local."""
        cells = array[tuple(self._cells)]
        if cells.shape == self._shape:
            return cells
        block = np.zeros(self._shape, array.dtype)
        block[tuple(self._inside)] = cells
        return block


class Window:
    """The way of one operand to its block with halos, on one process."""

    def __init__(self, operand: Any, sharding: Sharding, steps: Shape, halos: Halos, grid: ProcessGrid):
        self._cells = WindowCells(operand.shape, is_sharded(operand), sharding, steps, halos, grid.own_coords)
        self.moves = self._cells.target is not None

    def block(self, operand: Any) -> np.ndarray:
        """The cells that this process reads.  Collective if the operand is sharded; behind the gate."""
        target = self._cells.target
        if target is not None:
            array = reshard_local(operand.stored, operand.sharding, target, operand.grid, operand.shape)
            assert isinstance(array, np.ndarray)  # this process is on the grid
        else:
            array = np.empty((0,) * len(operand.shape), operand.dtype) if is_sharded(operand) else operand
        return self._cells.block(array)


def target_of(shape: Shape, sharding: Sharding, steps: Shape, halos: Halos) -> Sharding:
    """The sharding of an array whose blocks start where those of the steps do, with halos.

    Blocks without steps at the end have no cells, so that no halo comes to them.
    """
    offsets, sizes = [], []
    for d in sharding.sharded_dims:
        n, extent = shape[d], steps[d]
        starts = mapped(
            block_starts(sharding, d, extent),
            lambda start: start if start < min(extent, n) else n,  # noqa: B023  # called at once
            [min(extent, n)],
        )
        offsets.append(with_start(with_end(starts, n), 0))
        sizes.append(halos[d])
    return Sharding(sharding.grid, sharding.split_axes, sharded_dims_offsets=offsets or None, halo_sizes=sizes or None)
