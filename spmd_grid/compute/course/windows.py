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

from spmd_grid.compute.splits import ArrayOnGrid, block_starts, is_sharded
from spmd_grid.functions.interface import Halos
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.typing import Shape

__all__ = ["Window"]


class Window:
    """The way of one operand to its block with halos, on one process.

    ``sharding``: of the function's steps, of extents ``steps`` per dimension of the operand (1 where none runs).
    Cells outside the array are 0.
    """

    def __init__(self, operand: Any, sharding: Sharding, steps: Shape, halos: Halos, grid: ProcessGrid):
        own, shape, coords = sharding.core_box(steps, grid.own_coords), operand.shape, grid.own_coords
        self.moves = is_sharded(operand) and 0 not in steps
        self._shape: Shape = ()
        self._cells: list[slice] = []
        self._inside: list[slice] = []
        held = [(0, 0 if is_sharded(operand) else n) for n in shape]
        if self.moves:
            self._target = _target(operand, sharding, steps, halos)
            box = Layout(self._target, shape).local_box(coords)
            held = list(zip(box.starts, box.stops))
        for d, (n, (low, high), (first, behind)) in enumerate(zip(shape, halos, held)):
            start, stop = own.starts[d] - low, own.stops[d] + high
            begin = max(start, first, 0)
            end = max(min(stop, behind, n), begin)
            self._shape += (stop - start,)
            self._cells.append(slice(begin - first, end - first))
            self._inside.append(slice(begin - start, end - start))

    def block(self, operand: Any) -> np.ndarray:
        """The cells that this process reads.  Collective if the operand is sharded; behind the gate."""
        array = np.empty((0,) * len(self._shape), operand.dtype) if is_sharded(operand) else operand
        if self.moves:
            array = reshard_local(operand.stored, operand.sharding, self._target, operand.grid, operand.shape)
        cells = array[tuple(self._cells)]
        if cells.shape == self._shape:
            return cells
        block = np.zeros(self._shape, operand.dtype)
        block[tuple(self._inside)] = cells
        return block


def _target(operand: ArrayOnGrid, sharding: Sharding, steps: Shape, halos: Halos) -> Sharding:
    """The operand's sharding whose blocks start where those of the steps do, with halos.

    Blocks without steps at the end have no cells, so that no halo comes to them.
    """
    offsets, sizes = [], []
    for d in sharding.sharded_dims:
        n, extent = operand.shape[d], steps[d]
        starts = [n if start >= extent else min(start, n) for start in block_starts(sharding, d, extent)]
        offsets.append([0, *starts[1:-1], n])
        sizes.append(halos[d])
    return Sharding(sharding.grid, sharding.split_axes, sharded_dims_offsets=offsets or None, halo_sizes=sizes or None)
