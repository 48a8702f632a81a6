"""Arguments and results of the array API's functions: sharded arrays, those without dimensions included."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.array_api.defaults import sharding_and_grid
from spmd_grid.errors import DTypeError
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding

__all__ = ["CPU", "as_operands", "as_result", "as_sharded", "check_device"]

CPU = "cpu"  # the one device of the array API: every process computes on its own


def as_sharded(op: str, x: Any, like: ShardedArray | None = None) -> ShardedArray:
    """``x`` as a sharded array: itself, or a number of numpy's, which a selection of one cell is.

    Local.  Raises `DTypeError` for what is neither.
    """
    if isinstance(x, ShardedArray):
        return x
    if isinstance(x, np.generic):
        return zero_dimensional(x, sharding_and_grid(op, (), None, None)[1] if like is None else like.grid)
    raise DTypeError(f"{op}: an argument is {type(x).__name__}; it must be a ShardedArray (asarray makes one)")


def as_operands(op: str, *operands: Any) -> list[Any]:
    """The operands of a function that takes arrays and Python's numbers, at least one of them an array.  Local."""
    if any(isinstance(x, ShardedArray) for x in operands):
        for x in operands:
            if not isinstance(x, ShardedArray | np.generic | bool | int | float | complex):
                as_sharded(op, x)
        return list(operands)
    return [x if type(x) in (bool, int, float, complex) else as_sharded(op, x) for x in _some_array(op, operands)]


def _some_array(op: str, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    if all(type(x) in (bool, int, float, complex) for x in operands):
        raise DTypeError(f"{op}: the operands are {operands}; one of them must be a ShardedArray")
    return operands


def as_result(found: Any, like: ShardedArray) -> Any:
    """The result of a function as a sharded array: itself, or one without dimensions around a number.  Local."""
    return found if isinstance(found, ShardedArray) else zero_dimensional(found, like.grid)


def zero_dimensional(number: Any, grid: ProcessGrid) -> ShardedArray:
    """A sharded array without dimensions, held by every process of ``grid``.  Local."""
    value = np.asarray(number)
    local = grid.allocate((), value.dtype)
    local[...] = value
    return ShardedArray(local, Layout(Sharding(grid, []), ()), grid)


def check_device(op: str, device: object) -> None:
    """Refuses every device but that on which arrays are.  Local.  Raises ValueError."""
    if device is not None and device != CPU:
        raise ValueError(f"{op}: device is {device!r}; it must be {CPU!r}, or None")
