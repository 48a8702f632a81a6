"""Rules of functions whose steps read several neighbouring cells: sliding windows, convolutions, and users' own.

A function of windows takes a few lines:

>>> import numpy as np, spmd_grid as sg
>>> from spmd_grid.functions.table import call, rule
>>> def smooth(x):
...     return (x[:-2] + 2 * x[1:-1] + x[2:]) / 4
>>> @rule(smooth)
... def smooth_rule(x):
...     return windowed("smooth", smooth, x, halos={0: (0, 2)})
>>> def body():
...     grid = sg.init_grid((3,))
...     a = sg.from_function(lambda i: i * i, (7,), sg.Sharding(grid, [[0]]), grid)
...     return call(smooth, a).to_global().tolist()
>>> sg.run_spmd(body, ranks=3)[0]
[1.5, 4.5, 9.5, 16.5, 25.5]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError, ShapeError
from spmd_grid.functions.axes import several_axes
from spmd_grid.functions.interface import Application, Interface, Iterator
from spmd_grid.functions.table import Operand, call, composite, rule
from spmd_grid.functions.ways import OneWay

__all__ = ["windowed"]


def windowed(
    name: str,
    local: Callable[[np.ndarray], np.ndarray],
    a: Operand,
    halos: Mapping[int, tuple[int, int]],
    outside: bool = False,
    new: tuple[int, ...] = (),
) -> Application:
    """``local`` applied to blocks with the neighbouring cells that it needs: ``halos`` by dimension, (low, high).

    A result has no cells where its neighbours would be outside the array, so along such a dimension ``local`` gives
    low + high fewer cells than it gets.  With ``outside`` it has them: cells outside are 0.  ``new``: the extents of
    dimensions that come after the others, which are whole.  Raises ShapeError.
    """
    sizes = tuple([halos.get(d, (0, 0)) for d in range(len(a.shape))])
    extents = tuple([n if outside else n - sum(size) for n, size in zip(a.shape, sizes)])
    if min(extents, default=0) < 0:
        raise ShapeError(
            f"{name}: the array has shape {a.shape}; it is shorter than the windows, of halos {dict(halos)}"
        )
    shifted = sizes if outside else tuple([(0, low + high) for low, high in sizes])

    def on_block(block: np.ndarray) -> np.ndarray:
        steps = [n - sum(size) for n, size in zip(block.shape, sizes)]
        if min(steps, default=1) > 0:
            return local(block)
        # A block without steps has less than a window's cells: only the dtype is found, by one window.
        found = local(np.ones([max(n, 1) + sum(size) for n, size in zip(steps, sizes)], block.dtype))
        return found[tuple([slice(0, n) for n in steps])]

    of_a = tuple(range(len(a.shape)))
    iterators = tuple([Iterator(n) for n in (*extents, *new)])
    interface = Interface(iterators, (of_a,), (tuple(range(len(iterators))),), (shifted,))
    return Application(name, (a,), interface, on_block)


@rule(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: Operand, window_shape: int | Sequence[int], axis: int | Sequence[int] | None = None, *, writeable: bool = False
) -> Application:
    """numpy's sliding_window_view; the result has memory of its own, and is read-only as numpy's."""
    widths = tuple(window_shape) if isinstance(window_shape, Sequence) else (window_shape,)
    if not all(isinstance(n, int | np.integer) and n >= 0 for n in widths):
        raise ValueError(f"sliding_window_view: window_shape is {window_shape!r}; it must be of numbers from 0")
    if writeable:
        raise NotImplementedError("sliding_window_view into memory that can be written")
    given = [axis] if isinstance(axis, int | np.integer) else range(len(x.shape)) if axis is None else list(axis)
    axes = [several_axes("sliding_window_view", [each], len(x.shape))[0] for each in given]
    if len(axes) != len(widths):
        raise ValueError(f"sliding_window_view: window_shape is {window_shape!r}; it must have {len(axes)} entries")
    halos: dict[int, tuple[int, int]] = {}
    for d, width in zip(axes, widths):
        if not width:
            raise NotImplementedError("sliding_window_view with windows of no cells")
        before = halos.get(d, (0, 0))[1]
        if width > x.shape[d] - before:
            raise ShapeError(f"sliding_window_view: windows are {widths}; they must fit into the shape {x.shape}")
        halos[d] = 0, before + int(width) - 1

    def local(block: np.ndarray) -> np.ndarray:
        return np.lib.stride_tricks.sliding_window_view(block, widths, tuple(axes))

    found = windowed("sliding_window_view", local, x, halos, new=tuple(map(int, widths)))
    return replace(found, way=OneWay(local))


# -- convolutions --------------------------------------------------------------------------------------------------


@rule()
def correlate_windows(a: Operand, kernel: np.ndarray, low: int, high: int, outside: bool) -> Application:
    """np.correlate of windows of ``low`` + 1 + ``high`` cells with a plain kernel."""
    return windowed("correlate", lambda block: np.correlate(block, kernel, "valid"), a, {0: (low, high)}, outside)


def _convolved(name: str, a: Operand, kernel: np.ndarray, mode: str) -> Operand:
    """The sums of products of windows with ``kernel``, in numpy's modes of np.correlate."""
    if len(a.shape) != 1 or kernel.ndim != 1:
        raise ShapeError(f"{name}: shapes are {a.shape} and {kernel.shape}; both must have one dimension")
    width = len(kernel)
    if not 0 < width <= a.shape[0]:
        raise ShapeError(
            f"{name}: the second array has {width} cells; it must have from 1 to {a.shape[0]}, as the first"
        )
    if mode == "valid":
        return call(correlate_windows, a, kernel, 0, width - 1, False)
    if mode == "same":
        return call(correlate_windows, a, kernel, width // 2, (width - 1) // 2, True)
    if mode == "full":
        return call(correlate_windows, np.pad(a, (0, width - 1)), kernel, width - 1, 0, True)
    raise ValueError(f"{name}: mode is {mode!r}; it must be 'valid', 'same' or 'full'")


@composite(np.convolve)
def convolve(a: Operand, v: Any, mode: str = "full") -> Operand:
    """np.convolve with a plain kernel that is not longer than the array."""
    return _convolved("convolve", a, np.conjugate(_kernel("convolve", a, v))[::-1], mode)  # np.correlate conjugates it


@composite(np.correlate)
def correlate(a: Operand, v: Any, mode: str = "valid") -> Operand:
    """np.correlate with a plain kernel that is not longer than the array."""
    return _convolved("correlate", a, _kernel("correlate", a, v), mode)


def _kernel(name: str, a: Operand, v: Any) -> np.ndarray:
    """The second argument, which must be plain."""
    if hasattr(v, "sharding") or not hasattr(a, "sharding"):
        raise NotImplementedError(f"{name} with a kernel that is sharded")
    kernel = np.asarray(v)
    if kernel.dtype.kind not in "biufc":
        raise DTypeError(f"{name}: the second array has dtype {kernel.dtype}; it must be numeric")
    return kernel
