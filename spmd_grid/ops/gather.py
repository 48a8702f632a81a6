"""gather: the group's arrays one after the other, on one device."""

from __future__ import annotations

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.grid.groups import group_size
from spmd_grid.ops.all_gather import resolve_gather
from spmd_grid.ops.calls.arguments import as_extents, as_tensor_axis, hashable, root_index
from spmd_grid.ops.calls.collective import CollectiveCall, Operation
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.movement.box_moves import Movement

__all__ = ["gather"]


class Gather(Operation):
    """Concatenates the group's arrays along ``gather_axis``, in group order, on ``root``; None elsewhere.

    Collective over ``grid_axes``.  ``root`` lists the root's coordinates along ``grid_axes``.  ``x``, ``extents``
    and the errors are as for `all_gather`; ``out`` matters on the root only.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2, 2))
    ...     return sg.gather(np.full((1, grid.rank + 1), grid.rank), grid, [1], gather_axis=1, root=[1])
    >>> sg.run_spmd(body, ranks=4)
    [None, array([[0, 1, 1]]), None, array([[2, 2, 2, 3, 3, 3, 3]])]
    """

    name = "gather"

    def __call__(self, x, grid, grid_axes, gather_axis, root, *, extents=None, out=None):
        return self._operate(x, grid, grid_axes, (gather_axis, hashable(root), hashable(extents)), out)

    def start(self, x, grid, grid_axes, gather_axis, root, *, extents=None, out=None) -> Request:
        """Begins the operation; ``wait()`` gives its result, and x must hold still until then."""
        return self._begin(x, grid, grid_axes, (gather_axis, hashable(root), hashable(extents)), out)

    def plan(
        self, grid, shape, dtype, grid_axes, gather_axis, root, *, extents=None, path=None, name=None
    ) -> OperationPlan:
        """The operation made ready for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(grid, shape, dtype, grid_axes, (gather_axis, hashable(root), hashable(extents)), path, name)

    def prepare(self, grid, axes, gather_axis, root, extents) -> dict:
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
