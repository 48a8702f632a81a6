"""all_slice: cut each device's own block out of its own array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid.errors import OutputError
from spmd_grid.exchange.requests import Request
from spmd_grid.grid.blocks import block_interval
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.abstract import answer_of
from spmd_grid.ops.calls.arguments import as_array, as_grid_axes, as_tensor_axis, check_grid, check_output
from spmd_grid.ops.calls.call_plan import CallPlan
from spmd_grid.ops.calls.shape_rules import check_axis
from spmd_grid.typing import GridAxes

__all__ = ["all_slice"]


class AllSlice:
    """Cut this device's block out of ``x`` along ``slice_axis``, by the block rule in group order.

    Local: it never communicates, and the devices' arrays need not be equal.  Result: a new array of shape
    (..., own block's extent along slice_axis, ...), or ``out``.  Several ``grid_axes`` cut one after the other; None
    means all axes of the grid, in order.

    Raises `AxisError`, `DTypeError` and `OutputError`.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2, 3))
    ...     return sg.all_slice(np.arange(7), grid, [0, 1], slice_axis=0).tolist()
    >>> sg.run_spmd(body, ranks=6)
    [[0, 1], [2, 3], [], [4], [5], [6]]
    """

    name = "all_slice"

    def __call__(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        slice_axis: int,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        answer = answer_of(x, grid)
        if answer is not None:  # a function is being traced
            sliced: np.ndarray = answer(self.name, x, grid_axes, (slice_axis,), out)
            return sliced
        check_grid(self.name, grid)
        axes = as_grid_axes(self.name, grid, grid_axes)
        axis = as_tensor_axis(self.name, "slice_axis", slice_axis)
        x, coords = as_array(self.name, x), grid.coords
        assert coords is not None  # `check_grid` has refused processes outside the grid
        check_axis(self.name, "slice_axis", axis, x.ndim, f"rank {grid.rank} {grid.coords}")
        sizes = grid.grid.grid_shape(axes) if axes else ()
        start, stop = block_interval(x.shape[axis], sizes, [coords[a] for a in axes])
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

    def start(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        slice_axis: int,
        *,
        out: np.ndarray | None = None,
    ) -> Request:
        """Run the operation; the request, which the other operations need, is complete at once."""
        return Request.completed(self(x, grid, grid_axes, slice_axis, out=out))

    def plan(
        self,
        grid: ProcessGrid,
        shape: Sequence[int],
        dtype: np.typing.DTypeLike,
        grid_axes: GridAxes | None,
        slice_axis: int,
    ) -> CallPlan:
        """Prepare the operation for arrays of ``shape`` and ``dtype``.  Local."""
        shown = list(range(grid.ndim) if grid_axes is None else grid_axes)
        text = f"all_slice(grid_axes={shown}, slice_axis={slice_axis})"
        return CallPlan(
            self.name,
            text,
            shape,
            dtype,
            lambda x, out: self(x, grid, grid_axes, slice_axis, out=out),
            lambda x, out: self.start(x, grid, grid_axes, slice_axis, out=out),
        )


all_slice = AllSlice()
