"""Masks as indices: ``a[mask]`` and ``a[mask] = b``, where the mask has the shape of the array.

The selected cells stand in row-major order.  Where blocks follow one another in that order, each device keeps its own:
only their numbers are gathered, and the result has uneven blocks.  Elsewhere array and mask are raveled first, which
moves them into rows of cells.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from spmd_grid.compute.course.apply import sharded_like
from spmd_grid.compute.splits import ArrayOnGrid, block_starts, is_sharded, plain_sharding
from spmd_grid.errors import ImplicitGatherError, ShapeError, ShardingError
from spmd_grid.grid.groups import group_size
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.typing import Shape

__all__ = ["as_mask", "get_masked", "put_masked"]


def as_mask(op: str, mask: Any, a: ArrayOnGrid) -> ArrayOnGrid:
    """``mask`` as a sharded array; one that is plain gets the layout of ``a``.

    Local.  Raises ShapeError and GridError.
    """
    if mask.shape != a.shape or mask.dtype != np.dtype(bool):
        raise ShapeError(f"{op}: the mask has shape {mask.shape} and dtype {mask.dtype}; it must be {a.shape} and bool")
    if is_sharded(mask):
        a.grid.check_same_program(mask.grid, op)
        return mask
    layout = Layout(plain_sharding(a.sharding), a.shape)
    return type(a)(np.array(mask[layout.core_box(a.grid.own_coords).slices()]), layout, a.grid)


def get_masked(a: ArrayOnGrid, mask: ArrayOnGrid) -> Any:
    """The cells of ``a``, which has no partial values, where ``mask`` is true: one row.  Collective over a's grid."""
    sharding = plain_sharding(a.sharding)
    if mask.sharding.grid != sharding.grid or plain_sharding(mask.sharding) != sharding or mask.sharding.partial_axes:
        raise ShardingError(
            f"getitem: the mask has sharding {mask.sharding}; it must be {sharding}, as the array's: reshard it first"
        )
    if _is_in_order(sharding, a.shape):
        return a.grid.process.gate.run("getitem", _get_in_order, a, mask)
    _refuse_long_rows(a)
    return get_masked(np.ravel(a), np.ravel(mask))  # type: ignore[call-overload]  # sharded arrays have it


def put_masked(a: ArrayOnGrid, mask: ArrayOnGrid, value: Any) -> None:
    """Write the cells of ``value``, a number or a row, where ``mask`` is true.  Collective over a's grid."""
    row: Any = value if is_sharded(value) else np.asarray(value)
    if row.ndim > 1:
        raise ShapeError(f"setitem: value has shape {row.shape}; under a mask it must be a number or a row of them")
    if row.shape == (1,):
        row = row[0]
    if not row.ndim or _is_in_order(plain_sharding(a.sharding), a.shape):
        a.grid.process.gate.run("setitem", _put_in_order, a, mask, row)
        return
    _refuse_long_rows(a)
    flat: Any = np.ravel(a)  # type: ignore[call-overload]  # sharded arrays have it
    put_masked(flat, np.ravel(mask), row)  # type: ignore[call-overload]
    a[...] = flat.reshape(a.shape)  # type: ignore[index]


def _get_in_order(a: ArrayOnGrid, mask: ArrayOnGrid) -> Any:
    chosen = mask.stored_core
    row = _row_of(a, chosen)
    return sharded_like(a, a.stored_core[chosen], row)


def _put_in_order(a: ArrayOnGrid, mask: ArrayOnGrid, value: Any) -> None:
    sharding, chosen = plain_sharding(a.sharding), mask.stored_core
    if mask.sharding.grid != sharding.grid or plain_sharding(mask.sharding) != sharding or mask.sharding.partial_axes:
        chosen = reshard_local(mask.stored, mask.sharding, sharding, mask.grid, mask.shape)
    piece = value
    if np.ndim(value):
        row = _row_of(a, chosen)
        if value.shape != row.global_shape:
            raise ShapeError(f"setitem: value has shape {value.shape}; the mask selects {row.global_shape[0]} cells")
        if is_sharded(value):
            piece = reshard_local(value.stored, value.sharding, row.sharding, value.grid, value.shape)
        else:
            piece = value[row.core_box(a.grid.own_coords).slices()]
    elif is_sharded(value):  # it has no dimensions
        piece = reshard_local(value.stored, value.sharding, plain_sharding(value.sharding), value.grid, ())
    a.core_to_write()[chosen] = piece
    a.mark_dirty()


def _row_of(a: ArrayOnGrid, chosen: np.ndarray) -> Layout:
    """The layout of the selected cells, of which each device has those of its block.  Collective."""
    sharding = plain_sharding(a.sharding)
    dim = next(iter(_spread_dims(sharding)), None)
    counts = np.array([np.count_nonzero(chosen)])
    if dim is None:
        return Layout(Sharding(sharding.grid, [[]]), (int(counts[0]),))
    axes = sharding.axes_of(dim)
    counts = all_gather.run_in_gate(counts, a.grid, axes, (0, None))
    starts = [0, *accumulate(counts.tolist())]
    return Layout(Sharding(sharding.grid, [axes], sharded_dims_offsets=[starts]), (starts[-1],))


def _spread_dims(sharding: Sharding) -> list[int]:
    """The dimensions that several devices share."""
    return [dim for dim in sharding.sharded_dims if group_size(sharding.grid, sharding.axes_of(dim)) > 1]


def _is_in_order(sharding: Sharding, shape: Shape) -> bool:
    """Whether blocks follow one another in row-major order: at most one dimension is cut, after others of extent 1."""
    spread = _spread_dims(sharding)
    return not spread or (len(spread) == 1 and prod(shape[: spread[0]]) <= 1)


def _refuse_long_rows(a: ArrayOnGrid) -> None:
    """Refuses arrays whose first dimension is too short to be cut among all devices.  Plans only."""
    sharding = a.sharding
    axes = [axis for cut in sharding.split_axes for axis in cut]
    starts = block_starts(Sharding(sharding.grid, [axes]), 0, a.shape[0])
    most = max(stop - start for start, stop in zip(starts, starts[1:])) * prod(a.shape[1:])
    even = -(-a.size // group_size(sharding.grid, tuple(axes)))
    if most > 2 * even:
        raise ImplicitGatherError(
            f"an index is a mask of shape {a.shape}: to bring its cells into row-major order a process would have to"
            f" hold {most} of them, its even share being {even}; reshard array and mask to a sharding that cuts"
            " dimension 0 only, or use np.where"
        )
