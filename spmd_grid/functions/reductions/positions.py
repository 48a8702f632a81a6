"""The positions of extremes: each device finds its first one, and the first of those is the least position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spmd_grid.functions.axes import axes_of_ufunc, one_axis
from spmd_grid.functions.interface import PARALLEL, Application, Interface, Iterator, broadcast_maps
from spmd_grid.functions.table import Operand, call, composite, rule

__all__: list[str] = []


def first_of(a: Operand, extreme: Operand, axis: int | None, keepdims: bool) -> Operand:
    """The position of the first cell along ``axis`` that equals ``extreme``, a NaN counting as one."""
    return call(first_of, a, extreme, axis, keepdims)


@rule(first_of)
def first_of_rule(a: Operand, extreme: Operand, axis: int | None, keepdims: bool) -> Application:
    """The first cell of a block in row-major order has the least position, along a dimension and in the whole array."""
    _, maps = broadcast_maps("argmax", [a.shape, extreme.shape])
    ndim = len(a.shape)
    kept = tuple([None if axis in (None, d) else d for d in range(ndim) if keepdims or axis not in (None, d)])
    iterators = tuple([Iterator(n, "min" if axis in (None, d) else PARALLEL) for d, n in enumerate(a.shape)])
    strides = [int(np.prod(a.shape[d + 1 :], dtype=np.int64)) for d in range(ndim)]
    none = np.iinfo(np.intp).max

    def local(starts: tuple[int, ...], block: np.ndarray, extreme: np.ndarray) -> np.ndarray:
        found = np.asarray(block == extreme)
        if block.dtype.kind not in "biu":
            found |= block != block
        if axis is None:
            first = found.argmax() if found.size else 0
            position = none
            if found.size and found.flat[first]:
                index = np.unravel_index(first, found.shape)
                position = sum([(start + int(i)) * by for start, i, by in zip(starts, index, strides)])
            return np.full((1,) * ndim if keepdims else (), position, np.intp)
        if not found.shape[axis]:
            shape = [1 if d == axis else n for d, n in enumerate(found.shape) if keepdims or d != axis]
            return np.full(shape, none, np.intp)
        at = found.argmax(axis=axis, keepdims=True)
        at = np.where(np.take_along_axis(found, at, axis), at + starts[axis], none)
        return at if keepdims else at.squeeze(axis)

    interface = Interface(iterators, maps, (kept,))
    return Application("argmax", (a, extreme), interface, local, "min", located=True)


def _of_extreme(function: Callable[..., Any], extreme: Callable[..., Any]) -> None:
    """Register ``function``, which is the position of the first ``extreme``."""

    @composite(function)
    def of_extreme(a: Operand, axis: int | None = None, out: Operand = None, *, keepdims: bool = False) -> Operand:
        name = function.__name__
        if not a.ndim:
            axes_of_ufunc(name, axis, 0)
            return np.intp(0)
        axis = None if axis is None else one_axis(name, axis, a.ndim)
        if 0 in (a.shape if axis is None else a.shape[axis : axis + 1]):
            raise ValueError(f"{name}: a has shape {a.shape}; there must be a cell to find")
        return first_of(a, extreme(a, axis=axis, keepdims=True), axis, bool(keepdims))


_of_extreme(np.argmax, np.max)
_of_extreme(np.argmin, np.min)
