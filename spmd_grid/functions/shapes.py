"""Rules of functions that move dimensions: transposes, and dimensions of extent 1 that come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spmd_grid.errors import AxisError, ShapeError
from spmd_grid.functions.axes import Axis, axes_of_ufunc, one_axis, several_axes
from spmd_grid.functions.interface import Application, IndexingMap, Interface, Iterator
from spmd_grid.functions.table import Operand, composite, rule
from spmd_grid.functions.ways import OneWay, Rearranged

__all__ = ["relabelled"]

Arrange = Callable[[Any], Any]


def relabelled(name: str, a: Operand, result: IndexingMap, there: Arrange, back: Arrange) -> Application:
    """The dimensions of ``a`` in the order of ``result``, in which None is a new dimension of extent 1.

    ``there`` arranges blocks and whole arrays so; ``back`` is its inverse.
    """
    kept = {i for i in result if i is not None}
    operand = tuple([d if d in kept else None for d in range(len(a.shape))])
    interface = Interface(tuple([Iterator(n) for n in a.shape]), (operand,), (result,))
    return Application(name, (a,), interface, there, way=Rearranged(there, back))


@rule(np.transpose, np.permute_dims)
def transpose(a: Operand, axes: Axis = None) -> Application:
    """np.transpose."""
    ndim = len(a.shape)
    order = tuple(reversed(range(ndim))) if axes is None else several_axes("transpose", axes, ndim)
    if len(order) != ndim:
        raise AxisError(f"transpose: axes is {axes!r}; it must list each of {ndim} dimensions once")
    back = tuple([order.index(d) for d in range(ndim)])
    return relabelled("transpose", a, order, lambda x: x.transpose(order), lambda x: x.transpose(back))


@composite(np.swapaxes)
def swapaxes(a: Operand, axis1: int, axis2: int) -> Operand:
    """np.swapaxes, as a transpose."""
    order = list(range(a.ndim))
    first, second = one_axis("swapaxes", axis1, a.ndim), one_axis("swapaxes", axis2, a.ndim)
    order[first], order[second] = second, first
    return np.transpose(a, order)


@composite(np.moveaxis)
def moveaxis(a: Operand, source: Axis, destination: Axis) -> Operand:
    """np.moveaxis, as a transpose."""
    sources, targets = several_axes("moveaxis", source, a.ndim), several_axes("moveaxis", destination, a.ndim)
    if len(sources) != len(targets):
        raise AxisError(f"moveaxis: source {source!r} and destination {destination!r} must be of equal length")
    order = [d for d in range(a.ndim) if d not in sources]
    for target, found in sorted(zip(targets, sources)):
        order.insert(target, found)
    return np.transpose(a, order)


@composite(np.rollaxis)
def rollaxis(a: Operand, axis: int, start: int = 0) -> Operand:
    """np.rollaxis, as a move."""
    d = one_axis("rollaxis", axis, a.ndim)
    if not isinstance(start, int | np.integer) or not -a.ndim <= start <= a.ndim:
        raise AxisError(f"rollaxis: start is {start!r}; it must be from {-a.ndim} to {a.ndim}")
    start = start + a.ndim if start < 0 else start
    return np.moveaxis(a, d, start - 1 if d < start else start)


@rule(np.expand_dims)
def expand_dims(a: Operand, axis: Axis) -> Application:
    """np.expand_dims."""
    ndim = len(a.shape) + (len(axis) if isinstance(axis, Sequence) else 1)
    new = several_axes("expand_dims", axis, ndim)
    rest = iter(range(len(a.shape)))
    result = tuple([None if d in new else next(rest) for d in range(ndim)])
    return relabelled("expand_dims", a, result, lambda x: np.expand_dims(x, new), lambda x: np.squeeze(x, new))


@rule(np.squeeze)
def squeeze(a: Operand, axis: Axis = None) -> Application:
    """np.squeeze."""
    ones = tuple([d for d, n in enumerate(a.shape) if n == 1])
    axes = ones if axis is None else axes_of_ufunc("squeeze", axis, len(a.shape))
    for d in axes:
        if a.shape[d] != 1:
            raise ShapeError(f"squeeze: dimension {d} has extent {a.shape[d]}; it must be 1")
    result = tuple([d for d in range(len(a.shape)) if d not in axes])
    return relabelled("squeeze", a, result, lambda x: np.squeeze(x, axes), lambda x: np.expand_dims(x, axes))


@rule(np.broadcast_to)
def broadcast_to(array: Operand, shape: int | Sequence[int]) -> Application:
    """np.broadcast_to; the result has memory of its own, and is read-only as numpy's."""
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    try:
        fits = np.broadcast_shapes(array.shape, wanted) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"broadcast_to: an array of shape {array.shape} does not broadcast to {wanted}")
    first = len(wanted) - len(array.shape)
    operand = tuple([first + d if n == wanted[first + d] else None for d, n in enumerate(array.shape)])
    interface = Interface(tuple([Iterator(n) for n in wanted]), (operand,), (tuple(range(len(wanted))),))
    way = OneWay(lambda x: np.broadcast_to(x, wanted))
    return Application("broadcast_to", (array,), interface, lambda block: block, way=way)
