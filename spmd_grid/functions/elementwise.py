"""Rules of functions that compute each cell of the result from the same cell of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import erf as _erf_of_number
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.functions.interface import Application, Interface, Iterator, broadcast_maps, shape_of
from spmd_grid.functions.table import Operand, as_bool, call, composite, no_rule, rule
from spmd_grid.functions.ways import OneWay, Rearranged

__all__ = ["Cast", "elementwise", "erf", "may_raise", "ufunc_rule"]


def elementwise(
    name: str, local: Callable[..., Any], *operands: Operand, n_results: int = 1, may_fail: bool = False
) -> Application:
    """``local`` applied cell by cell to operands that broadcast against each other.  Raises ShapeError.

    ``may_fail``: whether it may raise by the values of cells.
    """
    shape, maps = broadcast_maps(name, [shape_of(operand) for operand in operands])
    result = tuple(range(len(shape)))
    interface = Interface(tuple([Iterator(n) for n in shape]), maps, (result,) * n_results)
    return Application(name, operands, interface, local, may_fail=may_fail)


def may_raise(ufunc: np.ufunc, operands: Sequence[Any]) -> bool:
    """Whether ``ufunc`` may raise by the values of cells: a function of the user's, or a negative power of integers.

    ``operands``: arrays and numbers, or their dtypes and types.  Types of numbers stand for no negative power.
    """
    if ufunc is not np.power or len(operands) < 2:
        return ufunc.ntypes == 1 and "O" in ufunc.types[0]
    base, power = (
        np.dtype(x if isinstance(x, type | np.dtype) else getattr(x, "dtype", type(x))) for x in operands[:2]
    )
    if base.kind not in "biu" or power.kind != "i":
        return False
    exponent = operands[1]
    return not isinstance(exponent, type) and (not isinstance(exponent, int) or exponent < 0)


def ufunc_rule(
    ufunc: np.ufunc,
    *inputs: Operand,
    where: Operand = True,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
    out: tuple[Operand, ...] | None = None,
) -> Application:
    """A call of ``ufunc`` that works cell by cell.

    Cells that the mask ``where`` leaves out keep the value that they have in ``out``; without it they are arbitrary.
    """
    options: dict[str, Any] = {"casting": casting} if dtype is None else {"casting": casting, "dtype": dtype}
    if where is True:
        local = partial(ufunc, **options)
        return elementwise(ufunc.__name__, local, *inputs, n_results=ufunc.nout, may_fail=may_raise(ufunc, inputs))
    kept = () if out is None else out
    n_inputs = len(inputs)

    def masked(mask: np.ndarray, *blocks: np.ndarray) -> Any:
        shape = np.broadcast_shapes(*map(np.shape, (mask, *blocks)))
        before = [np.broadcast_to(block, shape).copy() for block in blocks[n_inputs:]]
        found = ufunc(*blocks[:n_inputs], where=mask, out=tuple(before) if before else None, **options)
        return found

    fails = may_raise(ufunc, inputs)
    return elementwise(ufunc.__name__, masked, where, *inputs, *kept, n_results=ufunc.nout, may_fail=fails)


class Cast:
    """The cells of a block in another dtype, in ``out`` where it is given."""

    takes_out = True

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype

    def __call__(self, block: Any, out: np.ndarray | None = None) -> Any:
        if out is None:
            return block.astype(self.dtype)
        np.copyto(out, block, casting="unsafe")
        return out


@rule(np.where)
def where(condition: Operand, *choices: Operand) -> Application:
    """np.where; with one argument it is np.nonzero."""
    if not choices:
        return np.nonzero(condition)  # type: ignore[return-value]  # made of another function
    if len(choices) != 2:
        raise ValueError("where: x is given without y; it must be both or none")
    return elementwise("where", np.where, condition, *choices)


@rule(np.clip)
def clip(
    a: Operand,
    a_min: Operand = None,
    a_max: Operand = None,
    out: Operand = None,
    *,
    min: Operand = None,
    max: Operand = None,
    dtype: DTypeLike | None = None,
) -> Application:
    """np.clip; bounds may be arrays."""
    if (a_min is not None and min is not None) or (a_max is not None and max is not None):
        raise ValueError("clip: a bound is given twice, as a_min and min, or as a_max and max")
    low, high = a_min if min is None else min, a_max if max is None else max
    options: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
    if low is None and high is None:
        return elementwise("clip", partial(np.clip, a_min=None, a_max=None, **options), a)
    if low is None:
        return elementwise("clip", lambda block, high: np.clip(block, None, high, **options), a, high)
    if high is None:
        return elementwise("clip", lambda block, low: np.clip(block, low, None, **options), a, low)
    return elementwise("clip", partial(np.clip, **options), a, low, high)


@rule(np.isclose)
def isclose(
    a: Operand, b: Operand, rtol: Operand = 1e-05, atol: Operand = 1e-08, equal_nan: bool = False
) -> Application:
    """np.isclose; tolerances may be arrays."""
    return elementwise("isclose", partial(np.isclose, equal_nan=equal_nan), a, b, rtol, atol)


# -- functions of one array ----------------------------------------------------------------------------------------


def _of_one(function: Callable[..., Any]) -> None:
    """Register a function of the cells of one array, which takes nothing else but ``out``."""

    @rule(function)
    def of_one(x: Operand, out: Operand = None) -> Application:
        return elementwise(function.__name__, lambda block: function(block), x)


for _function in (np.i0, np.sinc, np.isposinf, np.isneginf, np.isreal, np.iscomplex):
    _of_one(_function)


def erf(x: Any) -> Any:
    """The error function of each cell."""
    x = np.asarray(x)
    cells = np.array([_erf_of_number(float(each)) for each in x.reshape(-1)])
    return cells.reshape(x.shape).astype(x.dtype)


@rule(erf)
def erf_rule(x: Operand) -> Application:
    """The error function."""
    return elementwise("erf", erf, x)


@rule(np.real)
def real(val: Operand) -> Application:
    """np.real."""
    way = PartOfComplex(np.real) if val.dtype.kind == "c" else Rearranged(np.real, np.real)
    return replace(elementwise("real", np.real, val), way=way)


@rule(np.imag)
def imag(val: Operand) -> Application:
    """np.imag; of real numbers it is read-only."""
    way = PartOfComplex(np.imag) if val.dtype.kind == "c" else OneWay(np.imag)
    return replace(elementwise("imag", np.imag, val), way=way)


@rule()
def with_part(x: Operand, part: Operand, is_imaginary: bool) -> Application:
    """Complex numbers with other real or imaginary parts."""

    def local(block: np.ndarray, part: np.ndarray) -> np.ndarray:
        found = np.array(block)
        if is_imaginary:
            found.imag = part
        else:
            found.real = part
        return found

    return elementwise("with_part", local, x, part)


class PartOfComplex(NamedTuple):
    """The way to the real or the imaginary parts: ``part`` is np.real or np.imag."""

    part: Callable[[Any], Any]

    def read(self, source: Operand) -> Operand:
        """The parts.  Collective."""
        return self.part(source)

    def write(self, source: Operand, view: Operand) -> None:
        """Write these parts, and leave the others.  Collective."""
        source[...] = call(with_part, source, view, self.part is np.imag)

    def inverse(self) -> None:
        """The other parts are left out."""
        return None


@rule()
def without_nan(x: Operand, nan: float, posinf: float | None, neginf: float | None, out: Operand = None) -> Application:
    """np.nan_to_num, into a new array or another one."""
    return elementwise("nan_to_num", lambda block: np.nan_to_num(block, nan=nan, posinf=posinf, neginf=neginf), x)


@rule(np.round, np.around)
def round_(a: Operand, decimals: int = 0, out: Operand = None) -> Application:
    """np.round."""
    return elementwise("round", lambda block: np.round(block, decimals), a)


@rule(np.angle)
def angle(z: Operand, deg: bool = False) -> Application:
    """np.angle."""
    return elementwise("angle", lambda block: np.angle(block, deg), z)


@rule(np.copy)
def copy(a: Operand) -> Application:
    """np.copy."""
    return elementwise("copy", np.copy, a)


@rule(np.zeros_like)
def zeros_like(a: Operand, dtype: DTypeLike | None = None) -> Application:
    """np.zeros_like, spread as ``a``."""
    return elementwise("zeros_like", lambda block: np.zeros_like(block, dtype, "C"), a)


@rule(np.ones_like)
def ones_like(a: Operand, dtype: DTypeLike | None = None) -> Application:
    """np.ones_like, spread as ``a``."""
    return elementwise("ones_like", lambda block: np.ones_like(block, dtype, "C"), a)


@rule(np.empty_like)
def empty_like(prototype: Operand, dtype: DTypeLike | None = None) -> Application:
    """np.empty_like, spread as ``prototype``."""
    return elementwise("empty_like", lambda block: np.empty_like(block, dtype, "C"), prototype)


@rule(np.full_like)
def full_like(a: Operand, fill_value: Any, dtype: DTypeLike | None = None) -> Application:
    """np.full_like with one number, spread as ``a``."""
    if np.ndim(fill_value):
        raise no_rule("full_like with an array of values")
    return elementwise("full_like", lambda block: np.full_like(block, fill_value, dtype, "C"), a)


# -- functions made of others --------------------------------------------------------------------------------------


@composite(np.nan_to_num)
def nan_to_num(
    x: Operand, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Operand:
    """np.nan_to_num."""
    return call(without_nan, x, nan, posinf, neginf, **({} if copy else {"out": x}))


@composite(np.allclose)
def allclose(a: Operand, b: Operand, rtol: Operand = 1e-05, atol: Operand = 1e-08, equal_nan: bool = False) -> bool:
    """np.allclose, by np.isclose and np.all."""
    return as_bool(np.all(np.isclose(a, b, rtol, atol, equal_nan)))


@composite(np.array_equal)
def array_equal(a1: Operand, a2: Operand, equal_nan: bool = False) -> bool:
    """np.array_equal."""
    if shape_of(a1) != shape_of(a2):
        return False
    same = a1 == a2
    if equal_nan and all(np.result_type(x).kind in "fc" for x in (a1.dtype, a2.dtype)):
        same = same | (np.isnan(a1) & np.isnan(a2))
    return as_bool(np.all(same))
