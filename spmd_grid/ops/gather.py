"""gather: concatenate the group's arrays on one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.grid.groups import group_size
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.all_gather import resolve_gather
from spmd_grid.ops.calls.arguments import as_extents, as_tensor_axis, hashable, root_index
from spmd_grid.ops.calls.collective import CollectiveCall, CollectiveOperation
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.movement.movement import Movement
from spmd_grid.typing import GridAxes

__all__ = ["gather"]


class Gather(CollectiveOperation):
    """Concatenate the group's arrays along ``gather_axis``, in group order, on ``root``; return None elsewhere.

    Collective over ``grid_axes`` (None: all axes of the grid, in order).  ``root`` lists the root's coordinates along
    ``grid_axes``.  ``x``, ``extents`` and the errors are as for `all_gather`; ``out`` matters on the root only.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2, 2))
    ...     return sg.gather(np.full((1, grid.rank + 1), grid.rank), grid, [1], gather_axis=1, root=[1])
    >>> sg.run_spmd(body, ranks=4)
    [None, array([[0, 1, 1]]), None, array([[2, 2, 2, 3, 3, 3, 3]])]
    """

    name = "gather"

    def __call__(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        gather_axis: int,
        root: Sequence[int],
        *,
        extents: Sequence[int] | None = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray | None:
        return self._operate(x, grid, grid_axes, (gather_axis, root, extents), out)

    def start(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        gather_axis: int,
        root: Sequence[int],
        *,
        extents: Sequence[int] | None = None,
        out: np.ndarray | None = None,
    ) -> Request:
        """Start the operation; ``wait()`` of the request returns the result.  Do not change x until then."""
        return self._begin(x, grid, grid_axes, (gather_axis, hashable(root), hashable(extents)), out)

    def plan(
        self,
        grid: ProcessGrid,
        shape: Sequence[int],
        dtype: np.typing.DTypeLike,
        grid_axes: GridAxes | None,
        gather_axis: int,
        root: Sequence[int],
        *,
        extents: Sequence[int] | None = None,
        path: str | None = None,
        name: str | None = None,
    ) -> OperationPlan:
        """Prepare the operation for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(grid, shape, dtype, grid_axes, (gather_axis, hashable(root), hashable(extents)), path, name)

    def prepare(
        self, grid: ProcessGrid, axes: tuple[int, ...], gather_axis: Any, root: Any, extents: Any
    ) -> dict[str, Any]:
        return {
            "gather_axis": as_tensor_axis(self.name, "gather_axis", gather_axis),
            "root": root_index(self.name, grid, axes, root),
            "extents": as_extents(self.name, extents, group_size(grid.grid, axes)),
        }

    def gives_result(self, call: CollectiveCall) -> bool:
        return call.comm.rank == call.args.root

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Movement:
        return resolve_gather(self.name, call, facts, call.args.root)


gather = Gather()
