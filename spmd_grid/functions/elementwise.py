"""Rules of functions that compute each cell of the result from the same cell of the operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from spmd_grid.functions.interface import Application, Interface, Iterator, broadcast_maps, shape_of
from spmd_grid.functions.table import composite, rule

__all__ = ["elementwise", "ufunc_rule"]


def elementwise(name: str, local: Callable[..., Any], *operands: Any, n_results: int = 1) -> Application:
    """``local`` applied cell by cell to operands that broadcast against each other.  Raises ShapeError."""
    shape, maps = broadcast_maps(name, [shape_of(operand) for operand in operands])
    result = tuple(range(len(shape)))
    interface = Interface(tuple([Iterator(n) for n in shape]), maps, (result,) * n_results)
    return Application(name, operands, interface, local)


def ufunc_rule(ufunc: np.ufunc, operands: tuple, where: Any = True, **options: Any) -> Application:
    """A call of ``ufunc`` that works cell by cell; ``options``: its keyword arguments but for ``out``."""
    if where is True:
        return elementwise(ufunc.__name__, partial(ufunc, **options), *operands, n_results=ufunc.nout)

    def masked(mask: np.ndarray, *blocks: np.ndarray) -> Any:
        return ufunc(*blocks, where=mask, **options)

    return elementwise(ufunc.__name__, masked, where, *operands, n_results=ufunc.nout)


@rule(np.where)
def where(condition, x, y):
    """np.where with three arguments; with one its result would have a shape that depends on values."""
    return elementwise("where", np.where, condition, x, y)


@rule(np.clip)
def clip(a, a_min=None, a_max=None, **options):
    """np.clip; bounds may be arrays."""
    if a_min is None and a_max is None:
        return elementwise("clip", partial(np.clip, a_min=None, a_max=None, **options), a)
    if a_min is None:
        return elementwise("clip", lambda block, high: np.clip(block, None, high, **options), a, a_max)
    if a_max is None:
        return elementwise("clip", lambda block, low: np.clip(block, low, None, **options), a, a_min)
    return elementwise("clip", partial(np.clip, **options), a, a_min, a_max)


@rule(np.isclose)
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """np.isclose with plain tolerances."""
    return elementwise("isclose", partial(np.isclose, rtol=rtol, atol=atol, equal_nan=equal_nan), a, b)


def _of_one(function: Callable) -> None:
    @rule(function)
    def of_one(x, *args, **options):
        return elementwise(function.__name__, lambda block: function(block, *args, **options), x)


for _function in (np.nan_to_num, np.round, np.angle, np.real_if_close, np.i0, np.sinc, np.isposinf, np.isneginf):
    _of_one(_function)
for _function in (np.real, np.imag, np.copy, np.zeros_like, np.ones_like, np.full_like, np.empty_like):
    _of_one(_function)


@composite(np.allclose)
def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """np.allclose, by np.isclose and np.all."""
    return bool(np.all(np.isclose(a, b, rtol, atol, equal_nan)))


@composite(np.array_equal)
def array_equal(a, b):
    """np.array_equal of arrays without NaN."""
    return a.shape == b.shape and bool(np.all(a == b))
