"""Memory for the cells that are loaded."""

from __future__ import annotations

import numpy as np

from spmd_grid.array.local_arrays import allocate_local
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid

__all__ = ["new_local"]


def new_local(op: str, layout: Layout, dtype: np.dtype, grid: ProcessGrid) -> np.ndarray:
    """A local array to be filled from files; cells that no file holds, in halos or of partial values, are 0.

    Local.  Zeros cost a pass over the memory, so other arrays have arbitrary cells.  Raises as `allocate_local`.
    """
    has_others = layout.sharding.halo_sizes is not None or bool(layout.sharding.partial_axes)
    return allocate_local(op, layout, dtype, grid, zeroed=has_others)
