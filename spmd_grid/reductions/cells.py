"""The cells that a process counts where every cell of the global array counts once."""

from __future__ import annotations

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.compute.course.shares import own_share

__all__ = ["counted"]


def counted(a: ShardedArray) -> np.ndarray:
    """A view of the cells that this process counts: together the processes count every cell once.

    Local.  Devices that hold the same cells share them; along partial axes every process counts its own contributions.

    >>> from spmd_grid import Sharding, from_function, init_grid, run_spmd
    >>> def body():
    ...     grid = init_grid((2, 2))
    ...     return counted(from_function(lambda i: i, (8,), Sharding(grid, [[0]]), grid)).tolist()
    >>> run_spmd(body, ranks=4)
    [[0, 1], [2, 3], [4, 5], [6, 7]]
    """
    core = np.atleast_1d(a.stored_core)
    share = own_share(core.shape, a.grid, a.sharding.replicated_axes)
    return core if share is None else core[share]
