"""all_reduce: combine the group's arrays element by element, on every device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import ReductionLike
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.calls.shape_rules import check_out, dtype_of
from spmd_grid.ops.reduction.reducing import Reducing
from spmd_grid.ops.reduction.reduction import Reduction
from spmd_grid.ops.reduction.spanning import reduction_of
from spmd_grid.typing import GridAxes

__all__ = ["all_reduce"]


class AllReduce(Reducing):
    """Combine the group's arrays element by element; every device gets the result, with equal bits.

    Collective over ``grid_axes`` (None: all axes of the grid, in order).  ``x``: any shape (0-d too), equal on all
    devices of the group.  ``reduction``: sum, max, min, product, average, bitwise_and, bitwise_or, bitwise_xor with the
    meaning of numpy's ufuncs, or an associative callable of two arrays (called on whole arrays, in group order, on
    every device).  The values are converted to ``dtype`` first; the default is x's own, and float64 for an average of
    integers or bool.  Result: a new array of x's shape, or ``out``.

    Two messages of about ``x.nbytes / G`` per pair of devices in a group of G; small arrays travel with the header.

    Raises `ReductionError`, `ShapeError`, `DTypeError`, `AxisError` and `OutputError`, the same on every device.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2, 2))
    ...     return sg.all_reduce(np.array([grid.rank, -grid.rank]), grid, [0], "max").tolist()
    >>> sg.run_spmd(body, ranks=4)
    [[2, 0], [3, -1], [2, 0], [3, -1]]
    >>> sg.run_spmd(lambda: int(sg.all_reduce(1, sg.init_grid((2, 2)))), ranks=4)
    [4, 4, 4, 4]
    """

    name = "all_reduce"

    def __call__(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None = None,
        reduction: ReductionLike = "sum",
        dtype: np.typing.DTypeLike | None = None,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        return self._operate(x, grid, grid_axes, (reduction, dtype), out)

    def start(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None = None,
        reduction: ReductionLike = "sum",
        dtype: np.typing.DTypeLike | None = None,
        *,
        out: np.ndarray | None = None,
    ) -> Request:
        """Start the operation; ``wait()`` of the request returns the result.  Do not change x until then."""
        return self._begin(x, grid, grid_axes, (reduction, dtype), out)

    def plan(
        self,
        grid: ProcessGrid,
        shape: Sequence[int],
        dtype: np.typing.DTypeLike,
        grid_axes: GridAxes | None = None,
        reduction: ReductionLike = "sum",
        result_dtype: np.typing.DTypeLike | None = None,
        *,
        path: str | None = None,
        name: str | None = None,
    ) -> OperationPlan:
        """Prepare the operation for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(grid, shape, dtype, grid_axes, (reduction, result_dtype), path, name)

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], reduction: Any, dtype: Any) -> dict[str, Any]:
        return self.prepare_reduction(reduction, dtype)

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Reduction:
        self.check(call, facts)
        check_out(self.name, facts, [facts[0].shape] * len(facts), dtype_of(facts[0]), call.label)
        return reduction_of(call, facts, call.args.reduction)


all_reduce = AllReduce()
