"""all_to_all: cut each device's array and send piece i to device i of its group."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
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
from spmd_grid.ops.calls.shape_rules import all_to_all_shapes, check_extents, check_out, cut_box, same_dtype, shape_of
from spmd_grid.ops.movement.movement import Movement
from spmd_grid.typing import GridAxes

__all__ = ["all_to_all"]


class AllToAll(CollectiveOperation):
    """Cut ``x`` along ``split_axis``, send piece i to device i of the group, and join the pieces received.

    Collective over ``grid_axes`` (None: all axes of the grid, in order).  Pieces are cut by the block rule and joined
    along ``concat_axis`` in group order.  The devices' arrays may differ in their extent along ``concat_axis`` only
    (``extents`` lists these in group order if they are known; they are checked).  Result: a new array of shape
    (..., own block's extent along split_axis, ..., sum of the pieces' extents along concat_axis, ...), or ``out``.

    One message of about ``x.nbytes / G`` to each other device of a group of G.

    Raises `AxisError`, `ShapeError`, `DTypeError` and `OutputError`, the same on every device of the group.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     x = 10 * (grid.rank + 1) + np.arange(1, 7).reshape(3, 2)
    ...     return sg.all_to_all(x, grid, [0], split_axis=0, concat_axis=0)
    >>> print(sg.run_spmd(body, ranks=3)[1])
    [[13 14]
     [23 24]
     [33 34]]
    """

    name = "all_to_all"

    def __call__(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        split_axis: int,
        concat_axis: int,
        *,
        extents: Sequence[int] | None = None,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        return self._operate(x, grid, grid_axes, (split_axis, concat_axis, extents), out)

    def start(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        split_axis: int,
        concat_axis: int,
        *,
        extents: Sequence[int] | None = None,
        out: np.ndarray | None = None,
    ) -> Request:
        """Start the operation; ``wait()`` of the request returns the result.  Do not change x until then."""
        return self._begin(x, grid, grid_axes, (split_axis, concat_axis, hashable(extents)), out)

    def plan(
        self,
        grid: ProcessGrid,
        shape: Sequence[int],
        dtype: np.typing.DTypeLike,
        grid_axes: GridAxes | None,
        split_axis: int,
        concat_axis: int,
        *,
        extents: Sequence[int] | None = None,
        path: str | None = None,
        name: str | None = None,
    ) -> OperationPlan:
        """Prepare the operation for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(grid, shape, dtype, grid_axes, (split_axis, concat_axis, hashable(extents)), path, name)

    def prepare(
        self, grid: ProcessGrid, axes: tuple[int, ...], split_axis: Any, concat_axis: Any, extents: Any
    ) -> dict[str, Any]:
        return {
            "split_axis": as_tensor_axis(self.name, "split_axis", split_axis),
            "concat_axis": as_tensor_axis(self.name, "concat_axis", concat_axis),
            "extents": as_extents(self.name, extents, group_size(grid.grid, axes)),
        }

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Movement:
        comm, split, concat = call.comm, call.args.split_axis, call.args.concat_axis
        dtype = same_dtype(self.name, facts, call.label)
        shapes = all_to_all_shapes(self.name, facts, split, concat, call.sizes, call.label)
        check_extents(self.name, facts, concat, call.args.extents, call.label)
        check_out(self.name, facts, shapes, dtype, call.label)
        given = [shape_of(fact) for fact in facts]
        own = given[comm.rank]
        sends = [Send(peer, cut_box(own, split, call.sizes, peer)) for peer in range(comm.size)]
        receives, start = [], 0
        for peer, shape in enumerate(given):
            piece = cut_box(shape, split, call.sizes, comm.rank)
            target = Box.from_shape(piece.shape).shift([start if d == concat else 0 for d in range(len(own))])
            receives.append(Receive(peer, piece, target))
            start += piece.shape[concat]
        transfer = Transfer(
            pattern="all_to_all",
            rank=comm.rank,
            size=comm.size,
            source_shape=own,
            target_shape=shapes[comm.rank],
            sends=tuple(send for send in sends if not send.box.is_empty),
            receives=tuple(receive for receive in receives if not receive.box.is_empty),
            volume=sum(prod(shape) for shape in given),
            parts=frozenset(cut_box(s, split, call.sizes, peer).shape for s in set(given) for peer in range(comm.size)),
        )
        return Movement(call, facts, transfer, shapes[comm.rank], dtype)


all_to_all = AllToAll()
