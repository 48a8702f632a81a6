"""Fourier transforms of sharded arrays of any layout, with numpy's values, and the layout of the result.

Dimensions that are whole on a process are transformed where they are.  Others become whole by one resharding, a
transpose of pencils or slabs, in the order that moves the fewest bytes on the busiest process.  If no other dimension
is left to be cut, as in arrays of one dimension, the dimension stays cut: three transposes of a matrix are between its
transforms (D. H. Bailey, "FFTs in external or hierarchical memory", 1990).  No process ever holds an array whole,
except for arrays of less than 64 KiB.

Without ``out_sharding`` the result stays where it costs least.  For several dimensions this is a transposed layout, and
the inverse transform leads back from there: ``ifftn(fftn(a))`` moves half the bytes that it would with fixed layouts.
np.fft's functions do the same.

>>> import numpy as np, spmd_grid as sg
>>> def body():
...     grid = sg.init_grid((3,))
...     a = sg.from_function(lambda i, j: np.cos(i) + j, (6, 4), sg.Sharding(grid, [[0]]), grid)
...     spectrum = sg.fft.rfftn(a)
...     back = sg.fft.irfftn(spectrum, s=(6, 4), out_sharding=a.sharding)
...     return str(spectrum.sharding), np.allclose(back.core, a.core)
>>> sg.run_spmd(body, ranks=3)[0]
('[[],[0]] on 3', True)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.array_api.defaults import ShardingRule
from spmd_grid.array_api.frequencies import frequencies
from spmd_grid.errors import DTypeError
from spmd_grid.functions.axes import Axis
from spmd_grid.functions.table import call, is_array
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

Axes = Sequence[int] | None


def fftn(
    a: Any,
    axes: Axes = None,
    *,
    s: Sequence[int] | None = None,
    norm: str | None = None,
    out_sharding: Sharding | None = None,
) -> Any:
    """np.fft.fftn in the sharding ``out_sharding``; without it, in that which costs least.

    Collective over the array's grid.  ``s``: the lengths along ``axes``, to which the array is cut or filled up with
    zeros.  ``out_sharding`` may have halos, which are filled in the domain, and partial axes.

    Raises `AxisError`, `ShapeError`, `DTypeError`, `GridError`, `ShardingError` and ValueError, the same on every
    process and before anything moves.

    >>> import spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2,))
    ...     columns = sg.Sharding(grid, [[], [0]])
    ...     a = sg.from_function(lambda i, j: i + 2 * j, (2, 2), sg.Sharding(grid, [[0]]), grid)
    ...     return sg.fft.fftn(a, out_sharding=columns).local.tolist()
    >>> sg.run_spmd(body, ranks=2)
    [[[(6+0j)], [(-2+0j)]], [[(-4+0j)], [0j]]]
    """
    return _several(np.fft.fftn, a, s, axes, norm, out_sharding)


def ifftn(
    a: Any,
    axes: Axes = None,
    *,
    s: Sequence[int] | None = None,
    norm: str | None = None,
    out_sharding: Sharding | None = None,
) -> Any:
    """np.fft.ifftn.  Collective over the array's grid; arguments and errors as of `fftn`."""
    return _several(np.fft.ifftn, a, s, axes, norm, out_sharding)


def rfftn(
    a: Any,
    axes: Axes = None,
    *,
    s: Sequence[int] | None = None,
    norm: str | None = None,
    out_sharding: Sharding | None = None,
) -> Any:
    """np.fft.rfftn of real numbers.  Collective over the array's grid; arguments and errors as of `fftn`."""
    return _several(np.fft.rfftn, a, s, axes, norm, out_sharding)


def irfftn(
    a: Any,
    axes: Axes = None,
    *,
    s: Sequence[int] | None = None,
    norm: str | None = None,
    out_sharding: Sharding | None = None,
) -> Any:
    """np.fft.irfftn, which gives real numbers.  Collective over the array's grid; arguments and errors as of `fftn`."""
    return _several(np.fft.irfftn, a, s, axes, norm, out_sharding)


def _several(
    function: Callable[..., Any],
    a: Any,
    s: Sequence[int] | None,
    axes: Axes,
    norm: str | None,
    out_sharding: Sharding | None,
) -> Any:
    _check_array(function.__name__, a)
    return call(function, a, s, axes, norm, out_sharding=out_sharding)


def _check_array(name: str, a: object) -> None:
    if not is_array(a):
        raise DTypeError(f"{name}: a is {type(a).__name__}; it must be a ShardedArray")


def _along_two(function: Callable[..., Any]) -> Callable[..., Any]:
    def transform(
        a: Any,
        axes: Sequence[int] = (-2, -1),
        *,
        s: Sequence[int] | None = None,
        norm: str | None = None,
        out_sharding: Sharding | None = None,
    ) -> Any:
        return _several(function, a, s, axes, norm, out_sharding)

    return _named(transform, function)


def _along_one(function: Callable[..., Any]) -> Callable[..., Any]:
    def transform(
        a: Any,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        *,
        out_sharding: Sharding | None = None,
    ) -> Any:
        _check_array(function.__name__, a)
        return call(function, a, n, axis, norm, out_sharding=out_sharding)

    return _named(transform, function)


def _named(transform: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    name = function.__name__
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"np.fft.{name}.  Collective over the array's grid; ``out_sharding`` and errors as of `fftn`."
    return transform


fft, ifft = _along_one(np.fft.fft), _along_one(np.fft.ifft)
rfft, irfft = _along_one(np.fft.rfft), _along_one(np.fft.irfft)
hfft, ihfft = _along_one(np.fft.hfft), _along_one(np.fft.ihfft)
fft2, ifft2 = _along_two(np.fft.fft2), _along_two(np.fft.ifft2)
rfft2, irfft2 = _along_two(np.fft.rfft2), _along_two(np.fft.irfft2)


def fftshift(x: Any, axes: Axis = None) -> Any:
    """np.fft.fftshift: the cell of frequency 0 moves to the middle.  Collective over the array's grid."""
    _check_array("fftshift", x)
    return call(np.fft.fftshift, x, axes)


def ifftshift(x: Any, axes: Axis = None) -> Any:
    """np.fft.ifftshift, the opposite of `fftshift`.  Collective over the array's grid."""
    _check_array("ifftshift", x)
    return call(np.fft.ifftshift, x, axes)


def fftfreq(
    n: int, d: float = 1.0, *, sharding: ShardingRule | None = None, grid: ProcessGrid | None = None
) -> ShardedArray:
    """np.fft.fftfreq as a sharded array, by default as `spmd_grid.use_sharding_defaults` says.

    Collective over the grid (dtypes are compared, no data moves).  Raises `ShapeError`, `GridError` and
    `ShardingError`.

    >>> import spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2,))
    ...     return sg.fft.fftfreq(5, 0.1, sharding=sg.Sharding(grid, [[0]]), grid=grid).local.tolist()
    >>> sg.run_spmd(body, ranks=2)
    [[0.0, 2.0, 4.0], [-4.0, -2.0]]
    """
    return frequencies("fftfreq", n, d, sharding, grid)


def rfftfreq(
    n: int, d: float = 1.0, *, sharding: ShardingRule | None = None, grid: ProcessGrid | None = None
) -> ShardedArray:
    """np.fft.rfftfreq as a sharded array.  Collective; arguments and errors as of `fftfreq`."""
    return frequencies("rfftfreq", n, d, sharding, grid)
