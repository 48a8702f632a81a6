"""reduce: the group's arrays combined element by element, on one device."""

from __future__ import annotations

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.ops.all_reduce import Reducing
from spmd_grid.ops.calls.arguments import hashable, root_index
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.calls.shape_rules import check_out
from spmd_grid.ops.reduction.reduction import Reduction

__all__ = ["reduce"]


class Reduce(Reducing):
    """Combines the group's arrays element by element and gives the result to ``root``; None elsewhere.

    Collective over ``grid_axes``.  ``root`` lists the root's coordinates along ``grid_axes``.  Otherwise as
    `all_reduce`, with the same bits; ``out`` matters on the root only; a callable runs on every
    device.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     return sg.reduce(np.int8(100), grid, [0], "sum", root=[2], dtype="int16")
    >>> sg.run_spmd(body, ranks=3)
    [None, None, array(300, dtype=int16)]
    """

    name = "reduce"

    def __call__(self, x, grid, grid_axes, reduction="sum", root=None, dtype=None, *, out=None):
        return self._operate(x, grid, grid_axes, (reduction, hashable(root), dtype), out)

    def start(self, x, grid, grid_axes, reduction="sum", root=None, dtype=None, *, out=None) -> Request:
        """Begins the operation; ``wait()`` gives its result, and x must hold still until then."""
        return self._begin(x, grid, grid_axes, (reduction, hashable(root), dtype), out)

    def plan(
        self, grid, shape, dtype, grid_axes, reduction="sum", root=None, result_dtype=None, *, path=None, name=None
    ) -> OperationPlan:
        """The operation made ready for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(grid, shape, dtype, grid_axes, (reduction, hashable(root), result_dtype), path, name)

    def prepare(self, grid, axes, reduction, root, dtype) -> dict:
        return {"root": root_index(self.name, grid, axes, root), **self.prepare_reduction(reduction, dtype)}

    def gives_result(self, call: CollectiveCall) -> bool:
        return call.comm.rank == call.args.root

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Reduction:
        self.check(call, facts)
        root = call.args.root
        shapes = [facts[0].shape if i == root else None for i in range(len(facts))]
        check_out(self.name, facts, shapes, facts[0].dtype, call.label)
        return Reduction(call, facts, call.args.reduction, root=root)


reduce = Reduce()
