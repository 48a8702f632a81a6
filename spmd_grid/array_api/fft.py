"""The extension of the array API for Fourier transforms.  All functions are collective over the grid.

They are those of `spmd_grid.fft` under the standard's names and with its arguments; results stay where they cost least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.array_api.arrays import as_sharded, check_device
from spmd_grid.array_api.defaults import ShardingRule
from spmd_grid.array_api.frequencies import frequencies
from spmd_grid.functions.axes import Axis
from spmd_grid.functions.table import call
from spmd_grid.grid.process_grid import ProcessGrid

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Norm: TypeAlias = Literal["backward", "ortho", "forward"]


def _along_one(name: str, text: str) -> Callable[..., ShardedArray]:
    def transform(x: ShardedArray, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> ShardedArray:
        found: ShardedArray = call(getattr(np.fft, name), as_sharded(name, x), n, axis, norm)
        return found

    return _named(transform, name, text)


def _along_several(name: str, text: str) -> Callable[..., ShardedArray]:
    def transform(
        x: ShardedArray,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: Norm = "backward",
    ) -> ShardedArray:
        found: ShardedArray = call(getattr(np.fft, name), as_sharded(name, x), s, axes, norm)
        return found

    return _named(transform, name, text)


def _named(transform: Callable[..., ShardedArray], name: str, text: str) -> Callable[..., ShardedArray]:
    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"{text}  Collective."
    return transform


fft = _along_one("fft", "The Fourier transforms along a dimension.")
ifft = _along_one("ifft", "The inverse of `fft`.")
rfft = _along_one("rfft", "The Fourier transforms of real numbers along a dimension, up to the middle frequency.")
irfft = _along_one("irfft", "The inverse of `rfft`.")
hfft = _along_one("hfft", "The real Fourier transforms of numbers given up to the middle, Hermitian beyond it.")
ihfft = _along_one("ihfft", "The inverse of `hfft`.")
fftn = _along_several("fftn", "The Fourier transform along several dimensions.")
ifftn = _along_several("ifftn", "The inverse of `fftn`.")
rfftn = _along_several("rfftn", "The Fourier transform of real numbers, half of it along the last dimension.")
irfftn = _along_several("irfftn", "The inverse of `rfftn`.")


def _frequencies_of(name: str, text: str) -> Callable[..., ShardedArray]:
    def function(
        n: int,
        /,
        *,
        d: float = 1.0,
        dtype: DTypeLike | None = None,
        device: Any = None,
        sharding: ShardingRule | None = None,
        grid: ProcessGrid | None = None,
    ) -> ShardedArray:
        check_device(name, device)
        found = frequencies(name, n, d, sharding, grid)
        return found if dtype is None else _cast(found, dtype)

    return _named(function, name, text)


fftfreq = _frequencies_of(
    "fftfreq", "The frequencies of the cells that `fft` of ``n`` cells at a distance of ``d`` gives."
)
rfftfreq = _frequencies_of("rfftfreq", "The frequencies of the cells that `rfft` of ``n`` such cells gives.")


def _cast(found: ShardedArray, dtype: DTypeLike) -> ShardedArray:
    cast: ShardedArray = found.astype(dtype, copy=False)
    return cast


def fftshift(x: ShardedArray, /, *, axes: Axis = None) -> ShardedArray:
    """The cells moved so that frequency 0 is in the middle.  Collective."""
    found: ShardedArray = call(np.fft.fftshift, as_sharded("fftshift", x), axes)
    return found


def ifftshift(x: ShardedArray, /, *, axes: Axis = None) -> ShardedArray:
    """The inverse of `fftshift`.  Collective."""
    found: ShardedArray = call(np.fft.ifftshift, as_sharded("ifftshift", x), axes)
    return found
