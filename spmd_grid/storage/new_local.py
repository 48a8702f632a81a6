"""Memory for the cells that are loaded."""

from __future__ import annotations

import numpy as np

from spmd_grid.array.local_arrays import allocate_local
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.storage.team import Team

__all__ = ["new_local"]


def new_local(team: Team, layout: Layout, dtype: np.dtype, grid: ProcessGrid) -> np.ndarray:
    """A local array to be filled from files; cells that no file holds, in halos or of partial values, are 0.

    Collective over the team: where one process has no memory for it, all raise StorageError.  Zeros cost a pass over
    the memory, so other arrays have arbitrary cells.  Raises as `allocate_local`.
    """
    local = np.empty(0, dtype)
    has_others = layout.sharding.halo_sizes is not None or bool(layout.sharding.partial_axes)
    with team.trying():
        local = allocate_local(team.op, layout, dtype, grid, zeroed=has_others)
    team.agree()
    return local
