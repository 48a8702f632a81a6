"""Rules of Fourier transforms: each needs the dimension that it runs along whole; several run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import index
from typing import Any, Literal

import numpy as np

from spmd_grid.errors import ShapeError
from spmd_grid.functions.axes import one_axis
from spmd_grid.functions.interface import Application
from spmd_grid.functions.table import Operand, composite, rule
from spmd_grid.functions.whole import along_whole

__all__: list[str] = []

Norm = Literal["backward", "ortho", "forward"] | None


def _transform(function: Callable[..., Any], extent_of: Callable[[int], int], default: Callable[[int], int]) -> None:
    """Register a transform along one dimension.

    ``extent_of``: from its length ``n`` the extent of the result; ``default``: the length for an array's extent.
    """

    @rule(function)
    def transform(
        a: Operand, n: int | None = None, axis: int = -1, norm: Norm = None, out: Operand = None
    ) -> Application:
        name = function.__name__
        d = one_axis(name, axis, len(a.shape))
        length = default(a.shape[d]) if n is None else index(n)
        if length < 1:
            raise ShapeError(f"{name}: its length is {length}; it must be at least 1")
        local = partial(function, n=length, axis=d, norm=norm)
        return along_whole(name, a, d, local, None if extent_of(length) == a.shape[d] else extent_of(length))


def _same(n: int) -> int:
    return n


def _half(n: int) -> int:
    return n // 2 + 1


def _twice(n: int) -> int:
    return 2 * (n - 1)


_transform(np.fft.fft, _same, _same)
_transform(np.fft.ifft, _same, _same)
_transform(np.fft.rfft, _half, _same)
_transform(np.fft.ihfft, _half, _same)
_transform(np.fft.irfft, _same, _twice)
_transform(np.fft.hfft, _same, _twice)


# -- along several dimensions --------------------------------------------------------------------------------------

Axes = Sequence[int] | None


def _lengths(name: str, a: Operand, s: Axes, axes: Axes) -> list[tuple[int, int | None]]:
    """The dimensions to transform, with their lengths where given.  Raises AxisError and ShapeError."""
    ndim = len(a.shape)
    if axes is None:
        axes = range(ndim) if s is None else range(ndim - len(s), ndim)
    found = [one_axis(name, axis, ndim) for axis in axes]
    lengths: list[int | None] = [None] * len(found) if s is None else [None if n == -1 else n for n in s]
    if len(lengths) != len(found):
        raise ShapeError(f"{name}: s has {len(lengths)} lengths, axes {len(found)}; they must be as many")
    return list(zip(found, lengths))


def _along_each(
    function: Callable[..., Any], a: Operand, dims: Sequence[tuple[int, int | None]], norm: Norm
) -> Operand:
    for d, n in dims:
        a = function(a, n, d, norm)
    return a


def _of_complex(function: Callable[..., Any], single: Callable[..., Any], default: Axes) -> None:
    @composite(function)
    def transform(a: Operand, s: Axes = None, axes: Axes = default, norm: Norm = None) -> Operand:
        return _along_each(single, a, _lengths(function.__name__, a, s, axes)[::-1], norm)


for _several, _single in ((np.fft.fftn, np.fft.fft), (np.fft.ifftn, np.fft.ifft)):
    _of_complex(_several, _single, None)
for _several, _single in ((np.fft.fft2, np.fft.fft), (np.fft.ifft2, np.fft.ifft)):
    _of_complex(_several, _single, (-2, -1))


@composite(np.fft.rfftn)
def rfftn(a: Operand, s: Axes = None, axes: Axes = None, norm: Norm = None) -> Operand:
    """np.fft.rfftn."""
    *others, (last, n) = _lengths("rfftn", a, s, axes)
    return _along_each(np.fft.fft, np.fft.rfft(a, n, last, norm), others[::-1], norm)


@composite(np.fft.irfftn)
def irfftn(a: Operand, s: Axes = None, axes: Axes = None, norm: Norm = None) -> Operand:
    """np.fft.irfftn."""
    *others, (last, n) = _lengths("irfftn", a, s, axes)
    return np.fft.irfft(_along_each(np.fft.ifft, a, others, norm), n, last, norm)


@composite(np.fft.rfft2)
def rfft2(a: Operand, s: Axes = None, axes: Axes = (-2, -1), norm: Norm = None) -> Operand:
    """np.fft.rfft2."""
    return np.fft.rfftn(a, s, axes, norm)


@composite(np.fft.irfft2)
def irfft2(a: Operand, s: Axes = None, axes: Axes = (-2, -1), norm: Norm = None) -> Operand:
    """np.fft.irfft2."""
    return np.fft.irfftn(a, s, axes, norm)
