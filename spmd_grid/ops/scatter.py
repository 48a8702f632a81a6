"""scatter: cut one device's array and send each device of its group a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import as_scatter_axis, hashable, root_index
from spmd_grid.ops.calls.collective import CollectiveCall, CollectiveOperation
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.calls.shape_rules import check_out, cut_boxes, dtype_of, shape_of
from spmd_grid.ops.movement.movement import Movement
from spmd_grid.typing import GridAxes

__all__ = ["scatter"]


class Scatter(CollectiveOperation):
    """Cut the array of ``root`` along ``scatter_axis`` and send block i to device i of the group.

    Collective over ``grid_axes`` (None: all axes of the grid, in order).  ``root`` lists the root's coordinates along
    ``grid_axes``.  Off the root ``x`` is ignored.  Blocks follow the block rule.  ``scatter_dim`` is another name of
    ``scatter_axis``.  Result: a new array of shape (..., own block's extent along scatter_axis, ...), or ``out``.

    Raises `DeviceError`, `AxisError`, `DTypeError` and `OutputError`, the same on every device of the group.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     return sg.scatter(np.arange(7) if grid.rank == 1 else None, grid, [0], scatter_axis=0, root=[1]).tolist()
    >>> sg.run_spmd(body, ranks=3)
    [[0, 1, 2], [3, 4, 5], [6]]
    """

    name = "scatter"

    def __call__(
        self,
        x: np.typing.ArrayLike | None,
        grid: ProcessGrid,
        grid_axes: GridAxes | None = None,
        scatter_axis: int | None = None,
        root: Sequence[int] | None = None,
        *,
        scatter_dim: int | None = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        return self._operate(x, grid, grid_axes, (scatter_axis, scatter_dim, root), out)

    def start(
        self,
        x: np.typing.ArrayLike | None,
        grid: ProcessGrid,
        grid_axes: GridAxes | None = None,
        scatter_axis: int | None = None,
        root: Sequence[int] | None = None,
        *,
        scatter_dim: int | None = None,
        out: np.ndarray | None = None,
    ) -> Request:
        """Start the operation; ``wait()`` of the request returns the result.  The root must not change x until then."""
        return self._begin(x, grid, grid_axes, (scatter_axis, scatter_dim, hashable(root)), out)

    def plan(
        self,
        grid: ProcessGrid,
        shape: Sequence[int] | None,
        dtype: np.typing.DTypeLike | None,
        grid_axes: GridAxes | None = None,
        scatter_axis: int | None = None,
        root: Sequence[int] | None = None,
        *,
        scatter_dim: int | None = None,
        path: str | None = None,
        name: str | None = None,
    ) -> OperationPlan:
        """Prepare the operation for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(grid, shape, dtype, grid_axes, (scatter_axis, scatter_dim, hashable(root)), path, name)

    def prepare(
        self, grid: ProcessGrid, axes: tuple[int, ...], scatter_axis: Any, scatter_dim: Any, root: Any
    ) -> dict[str, Any]:
        return {
            "scatter_axis": as_scatter_axis(self.name, scatter_axis, scatter_dim),
            "root": root_index(self.name, grid, axes, root),
        }

    def takes_array(self, call: CollectiveCall) -> bool:
        return call.comm.rank == call.args.root

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Movement:
        comm, axis, root = call.comm, call.args.scatter_axis, call.args.root
        shape, dtype = shape_of(facts[root]), dtype_of(facts[root])
        blocks = cut_boxes(self.name, shape, axis, "scatter_axis", call.sizes, call.label(root))
        check_out(self.name, facts, [block.shape for block in blocks], dtype, call.label)
        mine = blocks[comm.rank]
        is_root = comm.rank == root
        transfer = Transfer(
            pattern="scatter",
            rank=comm.rank,
            size=comm.size,
            source_shape=shape if is_root else None,
            target_shape=mine.shape,
            sends=tuple(Send(i, b) for i, b in enumerate(blocks) if not b.is_empty) if is_root else (),
            receives=() if mine.is_empty else (Receive(root, mine, Box.from_shape(mine.shape)),),
            volume=Box.from_shape(shape).size,
            root=root,
            parts=frozenset(block.shape for block in blocks),
        )
        return Movement(call, facts, transfer, mine.shape, dtype)


scatter = Scatter()
