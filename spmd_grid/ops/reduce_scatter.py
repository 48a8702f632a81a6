"""reduce_scatter: the group's arrays combined, of which every device keeps its own block."""

from __future__ import annotations

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.ops.all_reduce import Reducing
from spmd_grid.ops.calls.arguments import as_scatter_axis
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.calls.shape_rules import check_out, cut_boxes
from spmd_grid.ops.reduction.reduction import Reduction

__all__ = ["reduce_scatter"]


class ReduceScatter(Reducing):
    """Combines the group's arrays element by element; each device gets its block along ``scatter_axis``.

    Collective over ``grid_axes``.  As `all_reduce` followed by `all_slice`, with the same bits, for one message of
    about ``x.nbytes / G`` per pair of devices.  ``scatter_dim`` is another name of ``scatter_axis``.  Result: a new
    array of shape (..., own block's extent along scatter_axis, ...), or ``out``.

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
        self, x, grid, grid_axes, reduction="sum", scatter_axis=None, dtype=None, *, scatter_dim=None, out=None
    ):
        return self._operate(x, grid, grid_axes, (reduction, scatter_axis, scatter_dim, dtype), out)

    def start(
        self, x, grid, grid_axes, reduction="sum", scatter_axis=None, dtype=None, *, scatter_dim=None, out=None
    ) -> Request:
        """Begins the operation; ``wait()`` gives its result, and x must hold still until then."""
        return self._begin(x, grid, grid_axes, (reduction, scatter_axis, scatter_dim, dtype), out)

    def plan(
        self,
        grid,
        shape,
        dtype,
        grid_axes,
        reduction="sum",
        scatter_axis=None,
        result_dtype=None,
        *,
        scatter_dim=None,
        path=None,
        name=None,
    ) -> OperationPlan:
        """The operation made ready for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(
            grid, shape, dtype, grid_axes, (reduction, scatter_axis, scatter_dim, result_dtype), path, name
        )

    def prepare(self, grid, axes, reduction, scatter_axis, scatter_dim, dtype) -> dict:
        return {
            "scatter_axis": as_scatter_axis(self.name, scatter_axis, scatter_dim),
            **self.prepare_reduction(reduction, dtype),
        }

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Reduction:
        self.check(call, facts)
        blocks = cut_boxes(self.name, facts[0].shape, call.args.scatter_axis, "scatter_axis", call.sizes, call.label(0))
        check_out(self.name, facts, [block.shape for block in blocks], facts[0].dtype, call.label)
        return Reduction(call, facts, call.args.reduction, blocks=blocks)


reduce_scatter = ReduceScatter()
