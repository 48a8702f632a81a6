"""reduce_scatter: combine the group's arrays; each device keeps its own block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import ReductionLike, as_scatter_axis
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.calls.shape_rules import check_out, cut_boxes, dtype_of, shape_of
from spmd_grid.ops.reduction.reducing import Reducing
from spmd_grid.ops.reduction.reduction import Reduction
from spmd_grid.ops.reduction.spanning import reduction_of
from spmd_grid.typing import GridAxes

__all__ = ["reduce_scatter"]


class ReduceScatter(Reducing):
    """Combine the group's arrays element by element; each device gets its block along ``scatter_axis``.

    Collective over ``grid_axes`` (None: all axes of the grid, in order).  Equal to `all_reduce` followed by
    `all_slice`, bit for bit, for one message of about ``x.nbytes / G`` per pair of devices.  ``scatter_dim`` is another
    name of ``scatter_axis``.  Result: a new array of shape (..., own block's extent along scatter_axis, ...), or
    ``out``.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2, 2))
    ...     x = 4 * grid.rank + np.arange(1, 5).reshape(2, 2)
    ...     return sg.reduce_scatter(x, grid, [1], "sum", scatter_axis=0).tolist()
    >>> sg.run_spmd(body, ranks=4)
    [[[6, 8]], [[10, 12]], [[22, 24]], [[26, 28]]]
    """

    name = "reduce_scatter"

    def __call__(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None = None,
        reduction: ReductionLike = "sum",
        scatter_axis: int | None = None,
        dtype: np.typing.DTypeLike | None = None,
        *,
        scatter_dim: int | None = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        return self._operate(x, grid, grid_axes, (reduction, scatter_axis, scatter_dim, dtype), out)

    def start(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None = None,
        reduction: ReductionLike = "sum",
        scatter_axis: int | None = None,
        dtype: np.typing.DTypeLike | None = None,
        *,
        scatter_dim: int | None = None,
        out: np.ndarray | None = None,
    ) -> Request:
        """Start the operation; ``wait()`` of the request returns the result.  Do not change x until then."""
        return self._begin(x, grid, grid_axes, (reduction, scatter_axis, scatter_dim, dtype), out)

    def plan(
        self,
        grid: ProcessGrid,
        shape: Sequence[int],
        dtype: np.typing.DTypeLike,
        grid_axes: GridAxes | None = None,
        reduction: ReductionLike = "sum",
        scatter_axis: int | None = None,
        result_dtype: np.typing.DTypeLike | None = None,
        *,
        scatter_dim: int | None = None,
        path: str | None = None,
        name: str | None = None,
    ) -> OperationPlan:
        """Prepare the operation for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(
            grid, shape, dtype, grid_axes, (reduction, scatter_axis, scatter_dim, result_dtype), path, name
        )

    def prepare(
        self, grid: ProcessGrid, axes: tuple[int, ...], reduction: Any, scatter_axis: Any, scatter_dim: Any, dtype: Any
    ) -> dict[str, Any]:
        return {
            "scatter_axis": as_scatter_axis(self.name, scatter_axis, scatter_dim),
            **self.prepare_reduction(reduction, dtype),
        }

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Reduction:
        self.check(call, facts)
        blocks = cut_boxes(
            self.name, shape_of(facts[0]), call.args.scatter_axis, "scatter_axis", call.sizes, call.label(0)
        )
        check_out(self.name, facts, [block.shape for block in blocks], dtype_of(facts[0]), call.label)
        return reduction_of(call, facts, call.args.reduction, blocks=blocks)


reduce_scatter = ReduceScatter()
