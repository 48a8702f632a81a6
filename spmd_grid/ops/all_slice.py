"""all_slice: each device cuts its own block out of its own array."""

from __future__ import annotations

import numpy as np

from spmd_grid.errors import OutputError
from spmd_grid.exchange.requests import Request
from spmd_grid.grid.blocks import block_interval
from spmd_grid.ops.calls.arguments import as_array, as_tensor_axis, check_grid, check_output
from spmd_grid.ops.calls.plan import CallPlan
from spmd_grid.ops.calls.shape_rules import check_axis

__all__ = ["all_slice"]


class AllSlice:
    """Cuts this device's block out of ``x`` along ``slice_axis``, by the block rule in group order.

    Local: it never communicates, and the devices' arrays need not be equal.  Result: a new array of shape
    (..., own block's extent along slice_axis, ...), or ``out``.  Several ``grid_axes`` cut one after the other.

    Raises `AxisError`, `DTypeError` and `OutputError`.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2, 3))
    ...     return sg.all_slice(np.arange(7), grid, [0, 1], slice_axis=0).tolist()
    >>> sg.run_spmd(body, ranks=6)
    [[0, 1], [2, 3], [], [4], [5], [6]]
    """

    name = "all_slice"

    def __call__(self, x, grid, grid_axes, slice_axis, *, out=None) -> np.ndarray:
        check_grid(self.name, grid)
        axes = grid.grid.axes(grid_axes, "all_slice: grid_axes")
        axis = as_tensor_axis(self.name, "slice_axis", slice_axis)
        x = as_array(self.name, x)
        check_axis(self.name, "slice_axis", axis, x.ndim, f"rank {grid.rank} {grid.coords}")
        sizes = grid.grid.grid_shape(axes) if axes else ()
        start, stop = block_interval(x.shape[axis], sizes, [grid.coords[a] for a in axes])
        part = x[(slice(None),) * axis + (slice(start, stop),)]
        if out is None:
            return part.copy()
        check_output(self.name, out, x)
        if out.shape != part.shape or out.dtype != part.dtype:
            raise OutputError(
                f"all_slice: out has shape {out.shape} and dtype {out.dtype}; the result has shape {part.shape} and"
                f" dtype {part.dtype}"
            )
        out[...] = part
        return out

    def start(self, x, grid, grid_axes, slice_axis, *, out=None) -> Request:
        """The operation as a request, for uniformity: it is complete at once."""
        return Request.completed(self(x, grid, grid_axes, slice_axis, out=out))

    def plan(self, grid, shape, dtype, grid_axes, slice_axis) -> CallPlan:
        """The operation for arrays of ``shape`` and ``dtype``.  Local."""
        text = f"all_slice(grid_axes={list(grid_axes)}, slice_axis={slice_axis})"
        return CallPlan(
            self.name,
            text,
            shape,
            dtype,
            lambda x, out: self(x, grid, grid_axes, slice_axis, out=out),
            lambda x, out: self.start(x, grid, grid_axes, slice_axis, out=out),
        )


all_slice = AllSlice()
