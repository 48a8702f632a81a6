"""all_reduce: the group's arrays combined element by element, on every device."""

from __future__ import annotations

import numpy as np

from spmd_grid.errors import DTypeError, ReductionError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.ops.calls.arguments import as_dtype
from spmd_grid.ops.calls.collective import CollectiveCall, Operation
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.calls.shape_rules import check_out, equal_shapes, same_dtype
from spmd_grid.ops.reduction.reduction import Reduction
from spmd_grid.reduction_kind import as_reduction, result_dtype

__all__ = ["Reducing", "all_reduce"]


class Reducing(Operation):
    """What the reducing operations share: the reduction, the result's dtype, equal arrays on all devices."""

    wants_contiguous = True

    def prepare_reduction(self, reduction, dtype) -> dict:
        try:
            return {"reduction": as_reduction(reduction), "dtype": as_dtype(self.name, dtype)}
        except ReductionError as error:
            raise ReductionError(f"{self.name}: {error}") from None

    def convert(self, call: CollectiveCall, x: np.ndarray) -> np.ndarray:
        """x in the dtype of the result, C-contiguous; converted before anything is combined."""
        try:
            dtype = result_dtype(call.args.reduction, x.dtype, call.args.dtype)
        except DTypeError as error:
            raise DTypeError(f"{self.name}: {error}") from None
        if x.dtype == dtype:
            return x if x.flags.c_contiguous else x.copy("C")
        with np.errstate(all="ignore"):  # a warning on one member, made an error, would strand the others
            return x.astype(dtype, order="C")

    def check(self, call: CollectiveCall, facts: list[Facts]) -> None:
        equal_shapes(self.name, facts, call.label)
        same_dtype(self.name, facts, call.label)


class AllReduce(Reducing):
    """Combines the group's arrays element by element and gives the result to every device, with equal bits.

    Collective over ``grid_axes``.  ``x``: any shape (0-d too), equal on all devices of the group.  ``reduction``: sum,
    max, min, product, average, bitwise_and, bitwise_or, bitwise_xor with the meaning of numpy's ufuncs, or an
    associative callable of two arrays (called on whole arrays, in group order, on every device).  The values are
    converted to ``dtype`` first; by default that is x's own, and float64 for an average of integers or bool.  Result:
    a new array of x's shape, or ``out``.

    Two messages of about ``x.nbytes / G`` per pair of devices in a group of G; small arrays travel with the header.

    Raises `ReductionError`, `ShapeError`, `DTypeError`, `AxisError` and `OutputError`, the same on every device.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2, 2))
    ...     return sg.all_reduce(np.array([grid.rank, -grid.rank]), grid, [0], "max").tolist()
    >>> sg.run_spmd(body, ranks=4)
    [[2, 0], [3, -1], [2, 0], [3, -1]]
    """

    name = "all_reduce"

    def __call__(self, x, grid, grid_axes, reduction="sum", dtype=None, *, out=None):
        return self._operate(x, grid, grid_axes, (reduction, dtype), out)

    def start(self, x, grid, grid_axes, reduction="sum", dtype=None, *, out=None) -> Request:
        """Begins the operation; ``wait()`` gives its result, and x must hold still until then."""
        return self._begin(x, grid, grid_axes, (reduction, dtype), out)

    def plan(
        self, grid, shape, dtype, grid_axes, reduction="sum", result_dtype=None, *, path=None, name=None
    ) -> OperationPlan:
        """The operation made ready for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(grid, shape, dtype, grid_axes, (reduction, result_dtype), path, name)

    def prepare(self, grid, axes, reduction, dtype) -> dict:
        return self.prepare_reduction(reduction, dtype)

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Reduction:
        self.check(call, facts)
        check_out(self.name, facts, [facts[0].shape] * len(facts), facts[0].dtype, call.label)
        return Reduction(call, facts, call.args.reduction)


all_reduce = AllReduce()
