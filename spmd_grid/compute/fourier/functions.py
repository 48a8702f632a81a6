"""np.fft's functions of sharded arrays: along dimensions that are whole at once, along others by the cheapest way.

In functions that are being traced they are steps along single dimensions; the program's planner makes whole those
that have to be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spmd_grid.compute.calls import key_of
from spmd_grid.compute.fourier.course import plan_transform
from spmd_grid.compute.splits import is_sharded
from spmd_grid.errors import ImplicitGatherError
from spmd_grid.functions.axes import Axis, reduced_axes
from spmd_grid.functions.linear.transforms import Norm, Transform, transform_along, transform_of, transforms_of
from spmd_grid.functions.table import Operand, call, composite
from spmd_grid.grid.sharding import Sharding

__all__: list[str] = []

Axes = Sequence[int] | None


_MOST_KEPT = 1024


def _transformed(
    function: Callable[..., Any],
    a: Operand,
    arguments: tuple[Any, ...],
    transforms_of_call: Callable[..., tuple[Transform, ...]],
    out_sharding: Sharding | None,
) -> Any:
    """The transform by the course that is kept for such a call; ``arguments`` are those of ``transforms_of_call``."""
    name = function.__name__
    if is_sharded(a):
        kept = a.grid.functions
        key = key_of(a, function, (a, *arguments, out_sharding), {})
        course = None if key is None else kept.get(key)
        if course is None:
            course = plan_transform(name, a, transforms_of_call(name, a.shape, *arguments), out_sharding)
            if key is not None:
                if len(kept) >= _MOST_KEPT:
                    kept.clear()
                kept[key] = course
        return course.run(a)
    if out_sharding is not None:
        raise ImplicitGatherError(
            f"{name}: out_sharding is given in a function that is being traced; sg.constrain says where a value lies"
        )
    for transform in transforms_of_call(name, a.shape, *arguments):
        a = call(transform_along, a, transform.name, transform.n, transform.dim, transform.norm)
    return a


def _transform_of(*arguments: Any) -> tuple[Transform, ...]:
    return (transform_of(*arguments),)


def _along_one(function: Callable[..., Any]) -> None:
    @composite(function)
    def transform(
        a: Operand,
        n: int | None = None,
        axis: int = -1,
        norm: Norm = None,
        out: Operand = None,
        *,
        out_sharding: Sharding | None = None,
    ) -> Operand:
        return _transformed(function, a, (n, axis, norm), _transform_of, out_sharding)


def _along_several(function: Callable[..., Any], default: Axes) -> None:
    @composite(function)
    def transform(
        a: Operand,
        s: Axes = None,
        axes: Axes = default,
        norm: Norm = None,
        out: Operand = None,
        *,
        out_sharding: Sharding | None = None,
    ) -> Operand:
        return _transformed(function, a, (s, axes, norm), transforms_of, out_sharding)


_ALONG_ONE: tuple[Callable[..., Any], ...] = (
    *(np.fft.fft, np.fft.ifft, np.fft.rfft),
    *(np.fft.irfft, np.fft.hfft, np.fft.ihfft),
)
_ALONG_SEVERAL: tuple[Callable[..., Any], ...] = (np.fft.fftn, np.fft.ifftn, np.fft.rfftn, np.fft.irfftn)
_ALONG_TWO: tuple[Callable[..., Any], ...] = (np.fft.fft2, np.fft.ifft2, np.fft.rfft2, np.fft.irfft2)

for _function in _ALONG_ONE:
    _along_one(_function)
for _function in _ALONG_SEVERAL:
    _along_several(_function, None)
for _function in _ALONG_TWO:
    _along_several(_function, (-2, -1))


def _shifted(x: Operand, axes: Axis, cells: Callable[[int], int]) -> Operand:
    dims = list(reduced_axes("fftshift", axes, x.ndim))
    return np.roll(x, [cells(x.shape[d]) for d in dims], dims)


@composite(np.fft.fftshift)
def fftshift(x: Operand, axes: Axis = None) -> Operand:
    """np.fft.fftshift, as a roll."""
    return _shifted(x, axes, lambda n: n // 2)


@composite(np.fft.ifftshift)
def ifftshift(x: Operand, axes: Axis = None) -> Operand:
    """np.fft.ifftshift, as a roll."""
    return _shifted(x, axes, lambda n: -(n // 2))
