"""Rules of functions that need a dimension whole on a process: sorts, and picks by number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spmd_grid.errors import AxisError, ShapeError
from spmd_grid.functions.interface import PARALLEL, WHOLE, Application, Interface, Iterator
from spmd_grid.functions.table import rule

__all__: list[str] = []


def along_whole(name: str, a: Any, axis: Any, local: Callable[[np.ndarray], np.ndarray], extent: int | None = None):
    """``local`` applied to blocks that have dimension ``axis`` whole, and give ``extent`` cells along it."""
    ndim = len(a.shape)
    if not isinstance(axis, int) or not -ndim <= axis < ndim:
        raise AxisError(f"{name}: axis is {axis!r}; it must be one of the {ndim} dimensions of the array")
    d = axis % ndim
    iterators = [Iterator(n, WHOLE if i == d else PARALLEL) for i, n in enumerate(a.shape)]
    result = tuple(range(ndim))
    if extent is not None:
        iterators.append(Iterator(extent, WHOLE))
        result = tuple([ndim if i == d else i for i in range(ndim)])
    interface = Interface(tuple(iterators), (tuple(range(ndim)),), (result,))
    return Application(name, (a,), interface, local)


@rule(np.sort)
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    """np.sort along a dimension."""
    return along_whole("sort", a, axis, lambda block: np.sort(block, axis, kind))


@rule(np.argsort)
def argsort(a, axis=-1, kind=None, order=None, *, stable=None):
    """np.argsort along a dimension."""
    return along_whole("argsort", a, axis, lambda block: np.argsort(block, axis, kind))


@rule(np.take)
def take(a, indices, axis=None, out=None, mode="raise"):
    """np.take along a dimension, by a plain list of numbers."""
    indices = np.asarray(indices)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise ShapeError(
            f"take: indices have shape {indices.shape} and dtype {indices.dtype}; they must be a list of integers"
        )
    application = along_whole("take", a, axis, lambda block: np.take(block, indices, axis), len(indices))
    extent = a.shape[axis]
    if len(indices) and not (-extent <= indices.min() and indices.max() < extent):
        raise IndexError(f"take: an index is out of bounds for dimension {axis} with extent {extent}")
    return application


@rule(np.compress)
def compress(condition, a, axis=None, out=None):
    """np.compress along a dimension, by a plain list of bools."""
    kept = np.flatnonzero(np.asarray(condition))
    return along_whole("compress", a, axis, lambda block: np.compress(condition, block, axis), len(kept))


@rule(np.median)
def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """np.median along a dimension, which the result keeps with extent 1."""
    if not keepdims:
        raise NotImplementedError("median without keepdims")
    return along_whole("median", a, axis, lambda block: np.median(block, axis, keepdims=True), 1)
