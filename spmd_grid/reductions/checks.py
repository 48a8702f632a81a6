"""The first step of the reductions of this package, and the last of those that are not numpy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from spmd_grid.array import ShardedArray
from spmd_grid.array.agreement import all_axes
from spmd_grid.compute.course.combine import Combination
from spmd_grid.errors import DTypeError, ShardingError
from spmd_grid.functions.dtypes import check_numeric, check_reducible
from spmd_grid.ops.calls.arguments import check_grid

__all__ = ["check_array", "combined", "reduction"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def reduction(function: _Function) -> _Function:
    """Decorate a reduction of a `ShardedArray`: it is one operation, from its first line to its last."""
    found = signature(function)
    n_required = sum(each.default is Parameter.empty for each in found.parameters.values())

    def takes(args: tuple[Any, ...], options: dict[str, Any]) -> bool:
        try:
            return (len(args) == n_required and not options) or found.bind(*args, **options) is not None
        except TypeError:
            return False

    @wraps(function)
    def operate(a: ShardedArray, *args: Any, **options: Any) -> Any:
        if not isinstance(a, ShardedArray) or not takes((a, *args), options):
            return function(a, *args, **options)  # which refuses it: no operation has begun that could be cut off
        return a.grid.process.gate.run(function.__name__, function, a, *args, **options)

    return cast(_Function, operate)


def combined(name: str, found: ArrayLike, *arrays: ShardedArray, reproducible: bool = False) -> np.ndarray:
    """The sum of what all processes ``found`` for the same ``arrays``: equal bits on every process.

    Collective over the grid.
    """
    a = arrays[0]
    dtypes = tuple([array.dtype for array in arrays])
    return Combination(name, a.grid, all_axes(a.grid), "sum", dtypes, a.layout, reproducible).of(found)


def check_array(op: str, a: ShardedArray, what: str = "a", takes_partial: str | None = None) -> None:
    """Refuse what is no numeric `ShardedArray` on a grid of this process without partial values.

    Local.  ``takes_partial``: the kind of partial values that are taken.  Sums of integers that wrap are refused all
    the same: a sum that in 64 bits would be 200 is -56 in a cell of int8, and 1 + 1 is 1 in a cell of bool.  Raises
    `DTypeError`, `GridError` and `ShardingError`.
    """
    if not isinstance(a, ShardedArray):
        raise DTypeError(f"{op}: {what} is {type(a).__name__}; it must be a ShardedArray")
    check_grid(op, a.grid)
    if takes_partial is None:
        check_numeric(op, a.dtype, what)
    else:  # a reduction of this kind, which may take times too
        check_reducible(op, takes_partial, a.dtype, what)
    sharding = a.sharding
    if not sharding.partial_axes:
        return
    wraps = takes_partial == "sum" and a.dtype.kind in "biu" and a.dtype.itemsize < 8
    if sharding.partial_kind != takes_partial or wraps:
        raise ShardingError(
            f"{op}: {what} of dtype {a.dtype} holds partial values, to be combined by {sharding.partial_kind!r} over"
            f" grid axes {list(sharding.partial_axes)}; reshard it to a sharding without partial_axes first"
        )
