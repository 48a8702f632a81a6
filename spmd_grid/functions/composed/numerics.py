"""Functions of numerical analysis and statistics, and choices among arrays, made of others and of slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.errors import DTypeError, ShapeError
from spmd_grid.functions.axes import Axis, cut, laid_along, one_axis, several_axes
from spmd_grid.functions.elementwise import elementwise
from spmd_grid.functions.interface import Application, shape_of
from spmd_grid.functions.table import Operand, as_bool, composite, rule

__all__: list[str] = []


@composite(np.gradient)
def gradient(f: Operand, *varargs: Any, axis: Axis = None, edge_order: int = 1) -> Any:
    """np.gradient; coordinates, where given, are plain."""
    axes = tuple(range(f.ndim)) if axis is None else several_axes("gradient", axis, f.ndim)
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order is {edge_order}; it must be 1 or 2")
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError(
            f"gradient: there are {len(varargs)} spacings; there may be one, or {len(axes)}, one per dimension"
        )
    if len(varargs) == 1 and len(axes) > 1 and np.ndim(varargs[0]):
        raise TypeError(f"gradient: there is one list of coordinates; it must be one per dimension, {len(axes)}")
    spacings = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    for d in axes:
        if f.shape[d] < edge_order + 1:
            raise ShapeError(f"gradient: dimension {d} has extent {f.shape[d]}; it must be at least {edge_order + 1}")
    steps = [_steps(h, d, f.shape[d]) for d, h in zip(axes, spacings)]
    if f.dtype.kind in "iu":
        f = f.astype(np.float64)
    elif f.dtype.kind == "M":
        f = f - np.zeros((), f.dtype)[()]
    found = [_derivative(f, d, h, edge_order) for d, h in zip(axes, steps)]
    return found[0] if len(found) == 1 else tuple(found)


def _steps(spacing: Any, d: int, extent: int) -> Any:
    """The distance of neighbours along a dimension: a number where all are equal, else one per pair."""
    if np.ndim(spacing) == 0:
        return spacing
    coordinates = np.asarray(spacing)
    if coordinates.ndim != 1 or len(coordinates) != extent:
        raise ShapeError(
            f"gradient: coordinates of dimension {d} have shape {coordinates.shape}; they must have ({extent},)"
        )
    steps = np.diff(coordinates.astype(np.float64) if coordinates.dtype.kind in "biu" else coordinates)
    return steps[0] if (steps == steps[0]).all() else steps


def _derivative(f: Operand, d: int, h: Any, edge_order: int) -> Operand:
    result, uniform = np.empty_like(f), np.ndim(h) == 0
    low, middle, high = f[cut(d, None, -2)], f[cut(d, 1, -1)], f[cut(d, 2, None)]
    if uniform:
        result[cut(d, 1, -1)] = (high - low) / (2.0 * h)
    else:
        a, b = (laid_along(each, d, f.ndim) for each in (h[:-1], h[1:]))
        result[cut(d, 1, -1)] = -b / (a * (a + b)) * low + (b - a) / (a * b) * middle + a / (b * (a + b)) * high
    n = f.shape[d]
    for at, sign in ((0, 1), (n - 1, -1)):
        first, second = (f[cut(d, i, i + 1)] for i in (at, at + sign))
        near, far = (h, h) if uniform else [h[::sign][i] for i in (0, min(1, n - 2))]
        if edge_order == 1:
            edge = (second - first) / near
        else:
            third = f[cut(d, at + 2 * sign, at + 2 * sign + 1)]
            edge = (
                -(2.0 * near + far) / (near * (near + far)) * first
                + (near + far) / (near * far) * second
                - near / (far * (near + far)) * third
            )
        result[cut(d, at, at + 1)] = edge if sign > 0 else -edge
    return result


@composite(np.unwrap)
def unwrap(p: Operand, discont: float | None = None, axis: int = -1, *, period: float = 2 * np.pi) -> Operand:
    """np.unwrap."""
    d = one_axis("unwrap", axis, p.ndim)
    steps = np.diff(p, axis=d)
    dtype = np.result_type(steps.dtype, period)
    half, odd = divmod(period, 2) if dtype.kind in "biu" else (period / 2, 0)
    folded = np.mod(steps + half, period) - half
    if odd == 0:
        folded = np.where((folded == -half) & (steps > 0), half, folded)
    corrections = np.where(np.abs(steps) < (period / 2 if discont is None else discont), 0, folded - steps)
    result = p.astype(dtype)
    result[cut(d, 1, None)] = p[cut(d, 1, None)] + np.cumsum(corrections, d)
    return result


@composite(np.cov)
def cov(
    m: Operand,
    y: Operand = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    *,
    dtype: Any = None,
) -> Operand:
    """np.cov, without weights."""
    if len(shape_of(m)) > 2 or (y is not None and len(shape_of(y)) > 2):
        raise ShapeError(f"cov: the array has shape {shape_of(m)}; it must have at most two dimensions")
    dtype = np.result_type(m.dtype, *() if y is None else (y.dtype,), np.float64) if dtype is None else np.dtype(dtype)
    rows = [np.atleast_2d(x).astype(dtype) for x in (m, y) if x is not None]
    rows = [x if rowvar or each.ndim == 1 else np.transpose(x) for x, each in zip(rows, (m, y))]
    x = rows[0] if y is None else np.concatenate(rows, 0)
    free = x.shape[1] - (int(not bias) if ddof is None else ddof)
    if free <= 0:
        raise ShapeError(f"cov: there are {x.shape[1]} observations; there must be more than {x.shape[1] - free}")
    x = x - np.mean(x, axis=1, keepdims=True)
    return np.squeeze(x @ np.conjugate(np.transpose(x)) * (1 / free))


@composite(np.corrcoef)
def corrcoef(x: Operand, y: Operand = None, rowvar: bool = True, *, dtype: Any = None) -> Operand:
    """np.corrcoef."""
    found = np.cov(x, y, rowvar, dtype=dtype)
    if np.ndim(found) == 0:
        return found / found
    deviations = np.sqrt(np.real(np.diagonal(found)))
    found = found / np.expand_dims(deviations, 1) / np.expand_dims(deviations, 0)
    if found.dtype.kind == "c":
        return np.clip(found.real, -1, 1) + 1j * np.clip(found.imag, -1, 1)
    return np.clip(found, -1, 1)


# -- choices -------------------------------------------------------------------------------------------------------


@composite(np.select)
def select(condlist: Sequence[Operand], choicelist: Sequence[Operand], default: Operand = 0) -> Operand:
    """np.select."""
    if len(condlist) != len(choicelist) or not len(condlist):
        found = f"{len(condlist)} conditions and {len(choicelist)} choices"
        raise ShapeError(f"select: there are {found}; they must be equally many, at least one")
    for condition in condlist:
        if condition.dtype != np.dtype(bool):
            raise DTypeError(f"select: a condition has dtype {condition.dtype}; it must be bool")
    plain = (int, float, complex)
    dtype = np.result_type(*[x if type(x) in plain else getattr(x, "dtype", x) for x in (*choicelist, default)])
    result: Any = dtype.type(default) if type(default) in plain else default
    for condition, choice in zip(reversed(condlist), reversed(choicelist)):
        result = np.where(condition, dtype.type(choice) if type(choice) in plain else choice, result)
    return result if result.dtype == dtype else result.astype(dtype)


@rule(np.piecewise)
def piecewise(x: Operand, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Application:
    """np.piecewise, of functions that compute cell by cell."""
    conditions = list(condlist) if isinstance(condlist, list | tuple) else [condlist]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        n = len(conditions)
        raise ValueError(
            f"piecewise: there are {len(functions)} functions; for {n} conditions it must be {n} or {n + 1}"
        )
    for each in conditions:
        if shape_of(each) != shape_of(x):
            raise ShapeError(
                f"piecewise: a condition has shape {shape_of(each)}; it must be the array's, {shape_of(x)}"
            )

    def local(block: np.ndarray, *masks: np.ndarray) -> np.ndarray:
        return np.piecewise(block, list(masks), functions, *args, **kw)

    return elementwise("piecewise", local, x, *conditions, may_fail=any(map(callable, functions)))


@composite(np.array_equiv)
def array_equiv(a1: Operand, a2: Operand) -> bool:
    """np.array_equiv."""
    try:
        np.broadcast_shapes(shape_of(a1), shape_of(a2))
    except ValueError:
        return False
    return as_bool(np.all(a1 == a2))
