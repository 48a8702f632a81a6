"""Fourier transforms: those along single dimensions that make up a call, and the rule of one along a whole one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from operator import index
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.errors import AxisError, DTypeError, ShapeError
from spmd_grid.functions.axes import one_axis
from spmd_grid.functions.interface import Application
from spmd_grid.functions.table import Operand, rule
from spmd_grid.functions.whole import along_whole
from spmd_grid.typing import Shape

__all__ = ["Transform", "Norm", "transform_of", "transforms_of", "transform_along"]

Norm = str | None
Lengths = Sequence[int | None] | None

_NORMS = (None, "backward", "ortho", "forward")
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft, np.fft.hfft, np.fft.ihfft)
}
_FROM_HALF = ("irfft", "hfft")  # their input is half of a symmetric row
_TO_HALF = ("rfft", "ihfft")


class Transform(NamedTuple):
    """A transform of length ``n`` along dimension ``dim``; ``name`` is that of numpy's function."""

    name: str
    dim: int
    n: int
    norm: Norm = None

    @property
    def is_complex(self) -> bool:
        """Whether it goes from complex numbers to as many complex ones, so that its order among others is free."""
        return self.name in ("fft", "ifft")

    @property
    def from_half(self) -> bool:
        """Whether its input is half of a symmetric row."""
        return self.name in _FROM_HALF

    @property
    def to_half(self) -> bool:
        """Whether its result is half of a symmetric row."""
        return self.name in _TO_HALF

    @property
    def is_forward(self) -> bool:
        """Whether its exponents are negative."""
        return self.name in ("fft", "rfft", "hfft")

    @property
    def taken(self) -> int:
        """The number of cells of the input that it reads, if the row has as many."""
        return self.n // 2 + 1 if self.from_half else self.n

    @property
    def given(self) -> int:
        """The number of cells of the result."""
        return self.n // 2 + 1 if self.to_half else self.n

    def shape_after(self, shape: Shape) -> Shape:
        """The shape of the result for an array of ``shape``."""
        return (*shape[: self.dim], self.given, *shape[self.dim + 1 :])

    def dtype_after(self, dtype: np.dtype) -> np.dtype:
        """The dtype of the result for an array of ``dtype``.  Raises DTypeError for those that numpy refuses."""
        return _dtype_after(self.name, dtype)

    @property
    def call(self) -> partial[np.ndarray]:
        """The call of numpy's function for a block that has the dimension whole."""
        return partial(_FUNCTIONS[self.name], n=self.n, axis=self.dim, norm=self.norm)

    def of(self, block: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The transform of a block that has the dimension whole."""
        return self.call(block, out=out)


@lru_cache(256)
def _dtype_after(name: str, dtype: np.dtype) -> np.dtype:
    try:
        return np.dtype(_FUNCTIONS[name](np.ones(2, dtype)).dtype)
    except (TypeError, ValueError) as error:
        raise DTypeError(f"{name}: an array of {dtype} has no such transform: {error}") from None


def transform_of(name: str, shape: Shape, n: int | None, axis: int, norm: Norm) -> Transform:
    """The transform that a call of ``np.fft.<name>`` makes along one dimension.  Raises AxisError and ShapeError."""
    if norm not in _NORMS:
        raise ValueError(f"{name}: norm is {norm!r}; it must be 'backward', 'ortho' or 'forward'")
    d = one_axis(name, axis, len(shape))
    if n is None:
        n = 2 * (shape[d] - 1) if name in _FROM_HALF else shape[d]
    if index(n) < 1:
        raise ShapeError(f"{name}: its length is {n}; it must be at least 1")
    return Transform(name, d, index(n), norm)


def transforms_of(name: str, shape: Shape, s: Lengths, axes: Sequence[int] | None, norm: Norm) -> tuple[Transform, ...]:
    """The transforms that a call of ``np.fft.<name>`` makes along several dimensions, in numpy's order.

    Raises AxisError and ShapeError.
    """
    ndim = len(shape)
    if axes is None:
        axes = range(ndim) if s is None else range(-len(s), 0)
    if np.ndim(axes) != 1:
        raise AxisError(f"{name}: axes is {axes!r}; it must list dimensions of an array with {ndim} of them")
    dims = [one_axis(name, axis, ndim) for axis in axes]
    lengths: list[int | None] = [None] * len(dims) if s is None else [index(n) if n is not None else n for n in s]
    if len(lengths) != len(dims):
        raise ShapeError(f"{name}: s has {len(lengths)} lengths, axes {len(dims)}; they must be equally many")
    lengths = [shape[d] if n == -1 else n for n, d in zip(lengths, dims)]
    if not dims:
        if name in ("rfftn", "irfftn", "rfft2", "irfft2"):
            raise ShapeError(f"{name}: axes is empty; it must name at least one dimension")
        return ()
    is_real, inverse = name.startswith(("rfft", "irfft")), name.startswith("i")
    each = [transform_of("ifft" if inverse else "fft", shape, n, d, norm) for n, d in zip(lengths, dims)]
    if not is_real:
        return tuple(each[::-1])
    real = transform_of("irfft" if inverse else "rfft", shape, lengths[-1], dims[-1], norm)
    return (*each[:-1], real) if inverse else (real, *each[-2::-1])


@rule()
def transform_along(a: Operand, name: str, n: int, axis: int, norm: Norm = None) -> Application:
    """``np.fft.<name>`` along a dimension that must be whole."""
    if name not in _FUNCTIONS:
        raise ValueError(f"transform_along: name is {name!r}; it must be one of {', '.join(_FUNCTIONS)}")
    transform = Transform(name, axis, n, norm)
    # Programs know a call of numpy's function, and give it memory for its result.
    return along_whole(name, a, axis, transform.call, None if transform.given == a.shape[axis] else transform.given)
