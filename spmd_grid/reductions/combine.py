"""The first and the last step of every reduction: arguments are checked, and the processes' results are combined."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from spmd_grid.array import ShardedArray
from spmd_grid.errors import DTypeError, ShardingError
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.all_reduce import AllReduce
from spmd_grid.ops.calls.arguments import check_grid
from spmd_grid.ops.reduction.reducing import Reducing
from spmd_grid.reduction_kind import is_numeric

__all__ = ["check_array", "combine", "reduction"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Combine(Reducing):
    """`all_reduce` of the processes' results, under the name of the reduction that it ends.

    So a mismatch error names the reductions, and the layouts of the arrays, that processes called it with.
    """

    resolve = AllReduce.resolve

    def __init__(self, name: str):
        self.name = name

    def prepare(
        self,
        grid: ProcessGrid,
        axes: tuple[int, ...],
        reduction: str,
        dtypes: tuple[np.dtype, ...],
        reproducible: bool,
        layout: Layout,
    ) -> dict[str, Any]:
        compared = {"dtypes": dtypes, "reproducible": reproducible, "layout": layout}
        return self.prepare_reduction(reduction, None) | compared


_COMBINES = {name: Combine(name) for name in ("sum", "dot", "norm", "max", "min")}


def reduction(function: _Function) -> _Function:
    """Decorate a reduction of a `ShardedArray`: it is one operation, from its first line to its last."""

    @wraps(function)
    def operate(a: ShardedArray, *args: Any, **options: Any) -> Any:
        if not isinstance(a, ShardedArray):
            return function(a, *args, **options)  # which refuses it
        return a.grid.process.gate.run(function.__name__, function, a, *args, **options)

    return cast(_Function, operate)


def combine(name: str, found: ArrayLike, kind: str, *arrays: ShardedArray, reproducible: bool = False) -> np.ndarray:
    """The results that processes ``found`` for the same ``arrays``, combined by ``kind``: equal bits on every process.

    Collective over the grid.
    """
    a = arrays[0]
    dtypes = tuple([array.dtype for array in arrays])
    axes = tuple(range(a.grid.ndim))
    return _COMBINES[name].run_in_gate(np.asarray(found), a.grid, axes, (kind, dtypes, reproducible, a.layout))


def check_array(op: str, a: ShardedArray, what: str = "a", takes_partial: str | None = None) -> None:
    """Refuse what is no numeric `ShardedArray` on a grid of this process without partial values.

    Local.  ``takes_partial``: the kind of partial values that are taken.  Sums of integers that wrap are refused all
    the same: a sum that in 64 bits would be 200 is -56 in a cell of int8, and 1 + 1 is 1 in a cell of bool.  Raises
    `DTypeError`, `GridError` and `ShardingError`.
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
