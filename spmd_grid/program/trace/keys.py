"""Keys of calls: equal for calls of one function with equal plain arguments."""

from __future__ import annotations

from collections.abc import Callable
from inspect import BoundArguments
from typing import Any

import numpy as np

from spmd_grid.program.ir import Value

__all__ = ["part_of", "static_key"]

_MOST_BYTES = 4096  # longer plain arrays are not compared


def static_key(function: Callable[..., Any], bound: BoundArguments) -> Any:
    """The function with its arguments, arrays of the program aside; None where an argument is not comparable."""
    try:
        return (function, *[(name, _part(value)) for name, value in bound.arguments.items()])
    except _NoKey:
        return None


def part_of(x: Any) -> Any:
    """A plain argument as keys hold it; None where it is not comparable."""
    try:
        return _part(x)
    except _NoKey:
        return None


class _NoKey(Exception):
    """An argument that is not compared."""


def _part(x: Any) -> Any:
    if isinstance(getattr(x, "value", None), Value):
        return "array"
    if isinstance(x, np.ndarray):
        if x.nbytes > _MOST_BYTES or x.dtype.hasobject:
            raise _NoKey
        return x.shape, x.dtype, x.tobytes()
    if isinstance(x, tuple | list):
        return type(x), *map(_part, x)
    if isinstance(x, dict):
        return dict, *[(name, _part(each)) for name, each in x.items()]
    if isinstance(x, slice):
        return slice, x.start, x.stop, x.step
    if x is None or isinstance(x, bool | int | float | complex | str | np.generic):
        return type(x), repr(x)  # 0.0 and -0.0 are equal, and differ
    if isinstance(x, np.dtype | type):
        return x
    raise _NoKey
