"""Local arrays of a layout: allocated on this process, checked, and filled where they lie in the domain."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from spmd_grid.errors import OutputError, ShapeError, ShardingError
from spmd_grid.exchange.transfer.flat_bytes import view_of
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import as_array, check_movable
from spmd_grid.reduction_kind import as_reduction, identity
from spmd_grid.typing import MultiIndex

__all__ = ["allocate_local", "check_local", "fill_domain"]


def allocate_local(op: str, layout: Layout, dtype: np.dtype, grid: ProcessGrid, zeroed: bool) -> np.ndarray:
    """A new local array of this process, halos included: zeros if ``zeroed``, else with arbitrary contents.

    Local.  Raises `DTypeError`, and `ShardingError` for arrays beyond the address space, the same on every process.
    """
    check_movable(op, dtype)
    layout.sharding.check_dtype(op, dtype)
    try:
        layout.check_addressable(dtype.itemsize)
    except ShardingError as error:
        raise ShardingError(f"{op}: {error}") from None
    return grid.allocate(layout.local_shape(grid.own_coords), dtype, zeroed)


def check_local(op: str, local: np.ndarray, layout: Layout, grid: ProcessGrid) -> np.ndarray:
    """``local`` itself, if it can be this process's local array.  Local.

    Raises `OutputError`, `ShapeError` and `DTypeError`; the caller shares the error with all processes.
    """
    required = layout.local_shape(grid.own_coords)
    if not isinstance(local, np.ndarray) or not local.flags.writeable:
        found = "read-only" if isinstance(local, np.ndarray) else type(local).__name__
        raise OutputError(f"{op}: local is {found}; it must be a writeable numpy array")
    if local.shape != required:
        raise ShapeError(f"{op}: local has shape {local.shape}; the layout makes it {required}, halos included")
    return as_array(op, local)


def fill_domain(local: np.ndarray, layout: Layout, coords: MultiIndex, values: ArrayLike) -> None:
    """Write the cells of a local array that lie in the domain.

    Local.  Along partial axes the first device gets ``values``, the others the identity of the reduction.
    """
    sharding = layout.sharding
    inside = view_of(local, layout.in_domain_local(coords))
    if any(coords[axis] for axis in sharding.partial_axes):
        inside[...] = identity(as_reduction(sharding.partial_kind), local.dtype)
    else:
        inside[...] = values
