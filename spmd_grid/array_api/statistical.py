"""Statistical functions of the array API, and its tests of all cells: reductions, running sums, differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.array_api.arrays import as_result, as_sharded
from spmd_grid.compute.functions.joining import new_like
from spmd_grid.errors import AxisError
from spmd_grid.functions.axes import Axis, one_axis

__all__ = [
    *("all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std", "sum", "var")
]

_Reduction = Callable[..., ShardedArray]


def _reduction(function: Callable[..., Any], name: str) -> _Reduction:
    """The standard's reduction that is numpy's ``function``."""

    def call(x: ShardedArray, /, *, axis: Axis = None, keepdims: bool = False) -> ShardedArray:
        operand = as_sharded(name, x)
        return as_result(function(operand, axis=axis, keepdims=keepdims), operand)

    return _named(call, name)


def _adding_up(function: Callable[..., Any], name: str) -> _Reduction:
    """The standard's sum or product that is numpy's ``function``."""

    def call(
        x: ShardedArray, /, *, axis: Axis = None, dtype: DTypeLike | None = None, keepdims: bool = False
    ) -> ShardedArray:
        operand = as_sharded(name, x)
        found = function(operand, axis=axis, dtype=dtype, keepdims=keepdims)
        return as_result(found, operand)

    return _named(call, name)


def _spread(function: Callable[..., Any], name: str) -> _Reduction:
    """The standard's variance or deviation that is numpy's ``function``."""

    def call(x: ShardedArray, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> ShardedArray:
        operand = as_sharded(name, x)
        found = function(operand, axis=axis, ddof=correction, keepdims=keepdims)
        return as_result(found, operand)

    return _named(call, name)


def _named(call: _Reduction, name: str) -> _Reduction:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"As np.{name} along dimensions, all of them by default.  Collective."
    return call


all = _reduction(np.all, "all")
any = _reduction(np.any, "any")
max = _reduction(np.max, "max")
mean = _reduction(np.mean, "mean")
min = _reduction(np.min, "min")
prod = _adding_up(np.prod, "prod")
std = _spread(np.std, "std")
sum = _adding_up(np.sum, "sum")
var = _spread(np.var, "var")


def _running(function: Callable[..., Any], name: str, first: int) -> Callable[..., ShardedArray]:
    """The standard's running sum or product that is numpy's ``function``."""

    def call(
        x: ShardedArray,
        /,
        *,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        include_initial: bool = False,
    ) -> ShardedArray:
        operand: Any = as_sharded(name, x)
        if axis is None:
            if operand.ndim != 1:
                raise AxisError(f"{name}: axis is None; an array of shape {operand.shape} needs the number of one")
            axis = 0
        found = function(operand, axis=axis, dtype=dtype)
        if include_initial:
            d = one_axis(name, axis, operand.ndim)
            before = new_like(found, tuple([1 if i == d else n for i, n in enumerate(operand.shape)]), found.dtype)
            before[...] = first
            found = np.concatenate([before, found], d)
        return found

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"As np.{function.__name__} along a dimension, after {first} with ``include_initial``.  Collective."
    return call


cumulative_prod = _running(np.cumprod, "cumulative_prod", 1)
cumulative_sum = _running(np.cumsum, "cumulative_sum", 0)


def diff(
    x: ShardedArray,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: ShardedArray | None = None,
    append: ShardedArray | None = None,
) -> ShardedArray:
    """As np.diff: differences of neighbours along a dimension, ``n`` times.  Collective."""
    operand: Any = as_sharded("diff", x)
    parts = [as_sharded("diff", each, operand) for each in (prepend, operand, append) if each is not None]
    d = one_axis("diff", axis, operand.ndim)
    return np.diff(operand if len(parts) == 1 else np.concatenate(parts, d), n, d)  # type: ignore[return-value]
