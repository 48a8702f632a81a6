"""all_gather: concatenate the group's arrays on every device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.grid.groups import group_size
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import as_extents, as_tensor_axis, hashable
from spmd_grid.ops.calls.collective import CollectiveCall, CollectiveOperation
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.calls.shape_rules import check_extents, check_out, concatenated_shape, same_dtype, shape_of
from spmd_grid.ops.movement.movement import Movement
from spmd_grid.typing import GridAxes

__all__ = ["all_gather", "resolve_gather"]


class AllGather(CollectiveOperation):
    """Concatenate the group's arrays along ``gather_axis``, in group order, on every device.

    Collective over ``grid_axes`` (None: all axes of the grid, in order).  ``x``: shape (..., n_i along gather_axis,
    ...); the extents n_i may differ by device, the others must not.  ``extents`` lists them in group order if they are
    known; they are checked.  Result: a new array of shape (..., sum of n_i, ...), or ``out``.

    One message of ``x.nbytes`` from each device to each other device of its group, by one native collective; small
    arrays travel with the header.

    Raises `AxisError`, `ShapeError`, `DTypeError` and `OutputError`, the same on every device of the group.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((4,))
    ...     return sg.all_gather(np.array([10 * grid.rank, 10 * grid.rank + 1]), grid, [0], gather_axis=0)
    >>> sg.run_spmd(body, ranks=4)[2]
    array([ 0,  1, 10, 11, 20, 21, 30, 31])
    """

    name = "all_gather"

    def __call__(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        gather_axis: int,
        *,
        extents: Sequence[int] | None = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        return self._operate(x, grid, grid_axes, (gather_axis, extents), out)

    def start(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        gather_axis: int,
        *,
        extents: Sequence[int] | None = None,
        out: np.ndarray | None = None,
    ) -> Request:
        """Start the operation; ``wait()`` of the request returns the result.  Do not change x until then."""
        return self._begin(x, grid, grid_axes, (gather_axis, hashable(extents)), out)

    def plan(
        self,
        grid: ProcessGrid,
        shape: Sequence[int],
        dtype: np.typing.DTypeLike,
        grid_axes: GridAxes | None,
        gather_axis: int,
        *,
        extents: Sequence[int] | None = None,
        path: str | None = None,
        name: str | None = None,
    ) -> OperationPlan:
        """Prepare the operation for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(grid, shape, dtype, grid_axes, (gather_axis, hashable(extents)), path, name)

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], gather_axis: Any, extents: Any) -> dict[str, Any]:
        return {
            "gather_axis": as_tensor_axis(self.name, "gather_axis", gather_axis),
            "extents": as_extents(self.name, extents, group_size(grid.grid, axes)),
        }

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Movement:
        return resolve_gather(self.name, call, facts, None)


def resolve_gather(name: str, call: CollectiveCall, facts: list[Facts], root: int | None) -> Movement:
    """Move each member's array to its part of the concatenation, on ``root`` or (None) on all members."""
    comm, axis = call.comm, call.args.gather_axis
    dtype = same_dtype(name, facts, call.label)
    shape = concatenated_shape(name, facts, axis, "gather_axis", call.label)
    check_extents(name, facts, axis, call.args.extents, call.label)
    receivers = range(comm.size) if root is None else [root]
    check_out(name, facts, [shape if i in receivers else None for i in range(comm.size)], dtype, call.label)
    mine = comm.rank in receivers
    receives, start = [], 0
    for peer, fact in enumerate(facts if mine else ()):
        source = Box.from_shape(shape_of(fact))
        if not source.is_empty:
            receives.append(Receive(peer, source, source.shift([start if d == axis else 0 for d in range(len(shape))])))
        start += source.shape[axis]
    source = Box.from_shape(shape_of(facts[comm.rank]))
    transfer = Transfer(
        pattern="all_gather" if root is None else "gather",
        rank=comm.rank,
        size=comm.size,
        source_shape=source.shape,
        target_shape=shape if mine else None,
        sends=() if source.is_empty else tuple(Send(peer, source) for peer in receivers),
        receives=tuple(receives),
        volume=Box.from_shape(shape).size,
        root=root,
    )
    return Movement(call, facts, transfer, shape if mine else None, dtype)


all_gather = AllGather()
