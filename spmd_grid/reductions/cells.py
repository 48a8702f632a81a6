"""The cells that a process counts, read as contiguous runs, without a copy of the array.

The cores of devices that differ along splitting axes share no cell.  Those that differ along replicated axes hold the
same cells, so they share the work: each counts its own part of the core.

    [[0]] on 2x2, 8 cells     o: counted on this device

    device (0, 0)  o o . .              device (1, 0)          o o . .
    device (0, 1)  . . o o              device (1, 1)          . . o o
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.grid.blocks import block_interval

__all__ = ["counted", "runs"]

RUN = 1 << 15  # cells that are copied at a time where they must be copied; they stay in the L2 cache


def counted(a: ShardedArray) -> np.ndarray:
    """A view of the cells that this process counts: together the processes count every cell once.

    Local.  Along partial axes every process counts its own contributions.

    >>> from spmd_grid import Sharding, from_function, init_grid, run_spmd
    >>> def body():
    ...     grid = init_grid((2, 2))
    ...     return counted(from_function(lambda i: i, (8,), Sharding(grid, [[0]]), grid)).tolist()
    >>> run_spmd(body, ranks=4)
    [[0, 1], [2, 3], [4, 5], [6, 7]]
    """
    core, grid, axes = a.stored_core, a.grid, a.sharding.replicated_axes
    copies = [grid.shape[axis] for axis in axes]
    if prod(copies) == 1:
        return core
    core = np.atleast_1d(core)
    dim = core.shape.index(max(core.shape))
    part = block_interval(core.shape[dim], copies, [grid.own_coords[axis] for axis in axes], "balanced")
    return core[(slice(None),) * dim + (slice(*part),)]


def runs(dtype: np.dtype, *arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """The cells of arrays of one shape, in one order for all, as contiguous, aligned rows of ``dtype``.

    Local.  Where the array has such rows in memory, a run is a view of it, as long as possible; elsewhere it is a copy
    of RUN cells, which the next run overwrites.
    """
    flags = ["external_loop", "buffered", "grow_inner", "zerosize_ok"]
    each = [["readonly", "contig", "aligned", "nbo"]] * len(arrays)
    dtypes = [dtype] * len(arrays)
    with np.nditer(  # type: ignore[call-overload]  # its types take flags that are spelt out in the call only
        arrays, flags, each, dtypes, "K", "same_kind", buffersize=RUN
    ) as walk:
        for run in walk:
            yield run if len(arrays) > 1 else (run,)
