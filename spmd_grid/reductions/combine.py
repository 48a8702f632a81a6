"""What opens and what ends every reduction of cells: arguments known to all are checked, what was found is combined."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np

from spmd_grid.array import ShardedArray
from spmd_grid.errors import DTypeError, ShardingError
from spmd_grid.ops.all_reduce import AllReduce, Reducing
from spmd_grid.ops.calls.arguments import check_grid
from spmd_grid.reduction_kind import is_numeric

__all__ = ["check_array", "combine", "reduction"]


class Combine(Reducing):
    """`all_reduce` of what the processes found, under the name of the reduction that it ends.

    So processes that call another reduction, or reduce another array, are told so.
    """

    resolve = AllReduce.resolve

    def __init__(self, name: str):
        self.name = name

    def prepare(self, grid, axes, reduction, dtypes, reproducible, layout) -> dict:
        told = {"dtypes": dtypes, "reproducible": reproducible, "layout": layout}
        return self.prepare_reduction(reduction, None) | told


_COMBINES = {name: Combine(name) for name in ("sum", "dot", "norm", "max", "min")}


def reduction(function: Callable) -> Callable:
    """Decorate a reduction of a `ShardedArray`: one operation from its first line to its last."""

    @wraps(function)
    def operate(a, *args, **options):
        if not isinstance(a, ShardedArray):
            return function(a, *args, **options)  # which refuses it
        return a.grid.process.gate.run(function.__name__, function, a, *args, **options)

    return operate


def combine(name: str, found, kind: str, *arrays: ShardedArray, reproducible: bool = False) -> np.ndarray:
    """What all processes ``found`` about the same ``arrays``, combined by ``kind``: equal bits on every process.

    Collective over the grid.
    """
    a = arrays[0]
    dtypes = tuple([array.dtype for array in arrays])
    axes = tuple(range(a.grid.ndim))
    return _COMBINES[name].run_in_gate(np.asarray(found), a.grid, axes, (kind, dtypes, reproducible, a.layout))


def check_array(op: str, a, what: str = "a", takes_partial: str | None = None) -> None:
    """``a`` must be a numeric `ShardedArray` on a grid of this process, its values whole.

    Local.  ``takes_partial``: the kind of partial values that need not be combined first.  Where they are to be summed
    and wrap, they must be: what in 64 bits would be 200 is -56 in a cell of int8, and 1 + 1 is 1 in one of bool.
    """
    if not isinstance(a, ShardedArray):
        raise DTypeError(f"{op}: {what} is {type(a).__name__}; it must be a ShardedArray")
    check_grid(op, a.grid)
    if not is_numeric(a.dtype):
        raise DTypeError(f"{op}: {what} has dtype {a.dtype}; reductions take numeric and bool dtypes")
    sharding = a.sharding
    if not sharding.partial_axes:
        return
    wraps = takes_partial == "sum" and a.dtype.kind in "biu" and a.dtype.itemsize < 8
    if sharding.partial_kind != takes_partial or wraps:
        raise ShardingError(
            f"{op}: {what} of dtype {a.dtype} holds partial values, to be combined by {sharding.partial_kind!r} over"
            f" grid axes {list(sharding.partial_axes)}; reshard it to a sharding without partial_axes first"
        )
