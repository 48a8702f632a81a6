"""reduce: combine the group's arrays element by element, on one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import ReductionLike, hashable, root_index
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.calls.shape_rules import check_out, dtype_of
from spmd_grid.ops.reduction.reducing import Reducing
from spmd_grid.ops.reduction.reduction import Reduction
from spmd_grid.ops.reduction.spanning import reduction_of
from spmd_grid.typing import GridAxes

__all__ = ["reduce"]


class Reduce(Reducing):
    """Combine the group's arrays element by element; ``root`` gets the result, the others None.

    Collective over ``grid_axes`` (None: all axes of the grid, in order).  ``root`` lists the root's coordinates along
    ``grid_axes``.  Otherwise as `all_reduce`, with the same bits; ``out`` matters on the root only; a callable runs on
    every device.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     return sg.reduce(np.int8(100), grid, [0], "sum", root=[2], dtype="int16")
    >>> sg.run_spmd(body, ranks=3)
    [None, None, array(300, dtype=int16)]
    """

    name = "reduce"

    def __call__(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None = None,
        reduction: ReductionLike = "sum",
        root: Sequence[int] | None = None,
        dtype: np.typing.DTypeLike | None = None,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray | None:
        return self._operate(x, grid, grid_axes, (reduction, root, dtype), out)

    def start(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None = None,
        reduction: ReductionLike = "sum",
        root: Sequence[int] | None = None,
        dtype: np.typing.DTypeLike | None = None,
        *,
        out: np.ndarray | None = None,
    ) -> Request:
        """Start the operation; ``wait()`` of the request returns the result.  Do not change x until then."""
        return self._begin(x, grid, grid_axes, (reduction, hashable(root), dtype), out)

    def plan(
        self,
        grid: ProcessGrid,
        shape: Sequence[int],
        dtype: np.typing.DTypeLike,
        grid_axes: GridAxes | None = None,
        reduction: ReductionLike = "sum",
        root: Sequence[int] | None = None,
        result_dtype: np.typing.DTypeLike | None = None,
        *,
        path: str | None = None,
        name: str | None = None,
    ) -> OperationPlan:
        """Prepare the operation for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(grid, shape, dtype, grid_axes, (reduction, hashable(root), result_dtype), path, name)

    def prepare(
        self, grid: ProcessGrid, axes: tuple[int, ...], reduction: Any, root: Any, dtype: Any
    ) -> dict[str, Any]:
        return {"root": root_index(self.name, grid, axes, root), **self.prepare_reduction(reduction, dtype)}

    def gives_result(self, call: CollectiveCall) -> bool:
        return call.comm.rank == call.args.root

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Reduction:
        self.check(call, facts)
        root = call.args.root
        shapes = [facts[0].shape if i == root else None for i in range(len(facts))]
        check_out(self.name, facts, shapes, dtype_of(facts[0]), call.label)
        return reduction_of(call, facts, call.args.reduction, root=root)


reduce = Reduce()
