"""np.searchsorted where both the sorted cells and the values are cut.

The last cell of every block tells which process holds the position of a value.  Each process asks once for each of its
own values, and gets back the positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.compute.cores import core_in, member_rows
from spmd_grid.compute.course.apply import sharded_like
from spmd_grid.compute.indexing.requests import Requests, most_at_once
from spmd_grid.compute.splits import ArrayOnGrid, block_starts, plain_sharding
from spmd_grid.errors import DTypeError
from spmd_grid.grid.groups import group_index
from spmd_grid.grid.layout import Layout

__all__ = ["searched"]


def searched(a: ArrayOnGrid, v: ArrayOnGrid, side: Any) -> Any:
    """The positions of ``v`` in the sorted cells ``a``, laid out as ``v``.  Collective over a's grid.

    ``a`` is cut along its one dimension.  Raises DTypeError.
    """
    try:
        np.searchsorted(np.ones(1, a.dtype), np.ones(1, v.dtype))
    except TypeError as error:
        raise DTypeError(f"searchsorted: dtypes {a.dtype} and {v.dtype} cannot be compared: {error}") from None
    a.grid.check_same_program(v.grid, "searchsorted")
    return a.grid.process.gate.run("searchsorted", _searched, a, v, side)


def _searched(a: ArrayOnGrid, v: ArrayOnGrid, side: Any) -> Any:
    held, spread = plain_sharding(a.sharding), plain_sharding(v.sharding)
    core, own = core_in(a, held), core_in(v, spread)
    axes = tuple([axis for axis in held.axes_of(0) if a.grid.shape[axis] > 1])
    starts = np.array(block_starts(held, 0, a.shape[0]))
    blocks = np.flatnonzero(np.diff(starts))  # those that have cells
    last = member_rows(core[-1:] if len(core) else np.zeros(1, a.dtype), a.grid, axes)[blocks, 0]
    wanted, position = np.unique(own, return_inverse=True)
    found = np.zeros(len(wanted), np.intp)
    if len(blocks):
        owners = blocks[np.minimum(np.searchsorted(last, wanted, side), len(blocks) - 1)]
        start = starts[group_index(a.grid.grid, a.grid.own_coords, axes)]
        requests = Requests(owners, a.grid, axes, most_at_once(a, v))
        requests.ask(wanted, lambda values: start + np.searchsorted(core, values, side), found)
    return sharded_like(a, found[position].reshape(own.shape), Layout(spread, v.shape))
