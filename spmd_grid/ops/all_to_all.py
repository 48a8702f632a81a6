"""all_to_all: each device cuts its array and sends piece i to device i of its group."""

from __future__ import annotations

from math import prod

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.grid.groups import group_size
from spmd_grid.ops.calls.arguments import as_extents, as_tensor_axis, hashable
from spmd_grid.ops.calls.collective import CollectiveCall, Operation
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.calls.shape_rules import all_to_all_shapes, check_extents, check_out, cut_box, same_dtype
from spmd_grid.ops.movement.box_moves import Movement

__all__ = ["all_to_all"]


class AllToAll(Operation):
    """Cuts ``x`` along ``split_axis``, sends piece i to device i of the group, and joins what comes in.

    Collective over ``grid_axes``.  Pieces are cut by the block rule and joined along ``concat_axis`` in group order.
    The devices' arrays may differ in their extent along ``concat_axis`` only (``extents`` lists these by group order
    where they are known; they are checked).  Result: a new array of shape (..., own block's extent along split_axis,
    ..., sum of the pieces' extents along concat_axis, ...), or ``out``.

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

    def __call__(self, x, grid, grid_axes, split_axis, concat_axis, *, extents=None, out=None):
        return self._operate(x, grid, grid_axes, (split_axis, concat_axis, hashable(extents)), out)

    def start(self, x, grid, grid_axes, split_axis, concat_axis, *, extents=None, out=None) -> Request:
        """Begins the operation; ``wait()`` gives its result, and x must hold still until then."""
        return self._begin(x, grid, grid_axes, (split_axis, concat_axis, hashable(extents)), out)

    def plan(
        self, grid, shape, dtype, grid_axes, split_axis, concat_axis, *, extents=None, path=None, name=None
    ) -> OperationPlan:
        """The operation made ready for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(grid, shape, dtype, grid_axes, (split_axis, concat_axis, hashable(extents)), path, name)

    def prepare(self, grid, axes, split_axis, concat_axis, extents) -> dict:
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
        own = facts[comm.rank].shape
        sends = [Send(peer, cut_box(own, split, call.sizes, peer)) for peer in range(comm.size)]
        receives, start = [], 0
        for peer, fact in enumerate(facts):
            piece = cut_box(fact.shape, split, call.sizes, comm.rank)
            at = Box.from_shape(piece.shape).shift([start if d == concat else 0 for d in range(len(own))])
            receives.append(Receive(peer, piece, at))
            start += piece.shape[concat]
        transfer = Transfer(
            pattern="all_to_all",
            rank=comm.rank,
            size=comm.size,
            source_shape=own,
            target_shape=shapes[comm.rank],
            sends=tuple(send for send in sends if not send.box.is_empty),
            receives=tuple(receive for receive in receives if not receive.box.is_empty),
            volume=sum(Box.from_shape(fact.shape).size for fact in facts),
        )
        in_runs = all(prod(fact.shape[:split]) == 1 for fact in facts) and all(prod(s[:concat]) == 1 for s in shapes)
        return Movement(call, facts, transfer, shapes[comm.rank], dtype, in_runs)


all_to_all = AllToAll()
