"""Rules of functions that move dimensions: transposes, and dimensions of extent 1 that come and go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from spmd_grid.errors import AxisError, ShapeError
from spmd_grid.functions.interface import Application, IndexingMap, Interface, Iterator
from spmd_grid.functions.table import composite, rule

__all__ = ["relabelled"]


def relabelled(name: str, a, result: IndexingMap, local) -> Application:
    """The dimensions of ``a`` in the order of ``result``, in which None is a new dimension of extent 1."""
    kept = {i for i in result if i is not None}
    operand = tuple([d if d in kept else None for d in range(len(a.shape))])
    interface = Interface(tuple([Iterator(n) for n in a.shape]), (operand,), (result,))
    return Application(name, (a,), interface, local)


def _axis(name: str, axis, ndim: int) -> tuple[int, ...]:
    try:
        return normalize_axis_tuple(axis, ndim)
    except (ValueError, TypeError) as error:
        raise AxisError(f"{name}: axis is {axis!r}: {error}") from None


@rule(np.transpose, np.permute_dims)
def transpose(a, axes=None):
    """np.transpose."""
    ndim = len(a.shape)
    order = tuple(reversed(range(ndim))) if axes is None else _axis("transpose", axes, ndim)
    if len(order) != ndim:
        raise AxisError(f"transpose: axes is {axes!r}; it must list each of {ndim} dimensions once")
    return relabelled("transpose", a, order, lambda block: block.transpose(order))


@composite(np.swapaxes)
def swapaxes(a, axis1, axis2):
    """np.swapaxes, as a transpose."""
    order = list(range(a.ndim))
    first, second = _axis("swapaxes", axis1, a.ndim)[0], _axis("swapaxes", axis2, a.ndim)[0]
    order[first], order[second] = second, first
    return np.transpose(a, order)


@composite(np.moveaxis)
def moveaxis(a, source, destination):
    """np.moveaxis, as a transpose."""
    sources, targets = _axis("moveaxis", source, a.ndim), _axis("moveaxis", destination, a.ndim)
    if len(sources) != len(targets):
        raise AxisError(f"moveaxis: source {source!r} and destination {destination!r} must be of equal length")
    order = [d for d in range(a.ndim) if d not in sources]
    for target, found in sorted(zip(targets, sources)):
        order.insert(target, found)
    return np.transpose(a, order)


@composite(np.rollaxis)
def rollaxis(a, axis, start=0):
    """np.rollaxis, as a move."""
    axis = normalize_axis_index(axis, a.ndim)
    start = start + a.ndim if start < 0 else start
    return np.moveaxis(a, axis, start - 1 if axis < start else start)


@rule(np.expand_dims)
def expand_dims(a, axis):
    """np.expand_dims."""
    axes = (axis,) if not isinstance(axis, Sequence) else tuple(axis)
    new = _axis("expand_dims", axes, len(a.shape) + len(axes))
    rest = iter(range(len(a.shape)))
    result = tuple([None if d in new else next(rest) for d in range(len(a.shape) + len(axes))])
    return relabelled("expand_dims", a, result, lambda block: np.expand_dims(block, axis))


@rule(np.squeeze)
def squeeze(a, axis=None):
    """np.squeeze."""
    axes = tuple([d for d, n in enumerate(a.shape) if n == 1]) if axis is None else _axis("squeeze", axis, len(a.shape))
    for d in axes:
        if a.shape[d] != 1:
            raise ShapeError(f"squeeze: dimension {d} has extent {a.shape[d]}; it must be 1")
    result = tuple([d for d in range(len(a.shape)) if d not in axes])
    return relabelled("squeeze", a, result, lambda block: np.squeeze(block, axes))


@rule(np.broadcast_to)
def broadcast_to(array, shape, subok=False):
    """np.broadcast_to; the result has memory of its own."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if np.broadcast_shapes(array.shape, shape) != shape:
        raise ShapeError(f"broadcast_to: an array of shape {array.shape} does not broadcast to {shape}")
    first = len(shape) - len(array.shape)
    operand = tuple([first + d if n == shape[first + d] else None for d, n in enumerate(array.shape)])
    interface = Interface(tuple([Iterator(n) for n in shape]), (operand,), (tuple(range(len(shape))),))
    return Application("broadcast_to", (array,), interface, lambda block: block)
