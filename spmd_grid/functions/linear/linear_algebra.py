"""Functions of linear algebra that are made of contractions, reductions and slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.errors import AxisError, ShapeError
from spmd_grid.functions.axes import Axis, one_axis, reduced_axes, several_axes
from spmd_grid.functions.interface import shape_of
from spmd_grid.functions.linear.contractions import diagonal, einsum_by_pairs
from spmd_grid.functions.table import Operand, composite

__all__: list[str] = []

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _ndim(a: Operand) -> int:
    return len(shape_of(a))


# -- products ------------------------------------------------------------------------------------------------------


@composite(np.dot)
def dot(a: Operand, b: Operand, out: Operand = None) -> Operand:
    """np.dot."""
    n_a, n_b = _ndim(a), _ndim(b)
    if 0 in (n_a, n_b):
        return np.multiply(a, b)
    return np.tensordot(a, b, axes=((n_a - 1,), (max(n_b - 2, 0),)))


@composite(np.inner)
def inner(a: Operand, b: Operand) -> Operand:
    """np.inner."""
    n_a, n_b = _ndim(a), _ndim(b)
    return np.multiply(a, b) if 0 in (n_a, n_b) else np.tensordot(a, b, axes=((n_a - 1,), (n_b - 1,)))


@composite(np.outer)
def outer(a: Operand, b: Operand, out: Operand = None) -> Operand:
    """np.outer, of arrays flattened to vectors."""
    return np.expand_dims(np.ravel(a), 1) * np.expand_dims(np.ravel(b), 0)


@composite(np.linalg.outer)
def outer_of_vectors(x1: Operand, x2: Operand) -> Operand:
    """np.linalg.outer, of vectors."""
    if (_ndim(x1), _ndim(x2)) != (1, 1):
        raise ShapeError(f"linalg.outer: operands have shapes {shape_of(x1)} and {shape_of(x2)}; both must be vectors")
    return np.outer(x1, x2)


@composite(np.vdot)
def vdot(a: Operand, b: Operand) -> Operand:
    """np.vdot, of arrays flattened to vectors."""
    a = np.conjugate(a) if np.result_type(a.dtype).kind == "c" else a
    return np.tensordot(np.ravel(a), np.ravel(b), axes=1)


@composite(np.linalg.vecdot)
def vecdot(x1: Operand, x2: Operand, *, axis: int = -1) -> Operand:
    """np.linalg.vecdot."""
    first, second = (np.moveaxis(each, one_axis("vecdot", axis, _ndim(each)), -1) for each in (x1, x2))
    return np.vecdot(first, second)


@composite(np.kron)
def kron(a: Operand, b: Operand) -> Operand:
    """np.kron: every cell of ``a`` times ``b``."""
    n = max(_ndim(a), _ndim(b))
    a, b = (np.reshape(each, (1,) * (n - _ndim(each)) + shape_of(each)) for each in (a, b))
    apart = np.expand_dims(a, tuple(range(1, 2 * n, 2))) * np.expand_dims(b, tuple(range(0, 2 * n, 2)))
    return np.reshape(apart, tuple([x * y for x, y in zip(a.shape, b.shape)]))


@composite(np.cross)
def cross(
    a: Operand, b: Operand, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Operand:
    """np.cross, of vectors of three components."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a = np.moveaxis(a, one_axis("cross", axisa, _ndim(a)), -1)
    b = np.moveaxis(b, one_axis("cross", axisb, _ndim(b)), -1)
    if (a.shape[-1], b.shape[-1]) != (3, 3):
        raise ShapeError(f"cross: vectors have {a.shape[-1]} and {b.shape[-1]} components; they must have 3")
    if _ndim(a) == _ndim(b) == 1:  # of which every component is a number, on all processes
        return np.cross(a[np.newaxis], b[np.newaxis])[0]
    parts = [a[..., i - 2] * b[..., i - 1] - a[..., i - 1] * b[..., i - 2] for i in range(3)]
    result = np.stack(parts, -1)
    return np.moveaxis(result, -1, one_axis("cross", axisc, result.ndim))


@composite(np.linalg.cross)
def cross_of_vectors(x1: Operand, x2: Operand, *, axis: int = -1) -> Operand:
    """np.linalg.cross."""
    return np.cross(x1, x2, axis=axis)


@composite(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Operand], *, out: Operand = None) -> Operand:
    """np.linalg.multi_dot: a product of matrices, in the order with the fewest multiplications."""
    arrays = list(arrays)
    if len(arrays) < 2:
        raise ShapeError(f"linalg.multi_dot: there are {len(arrays)} arrays; it must have at least two")
    for number, each in enumerate(arrays):
        allowed = (1, 2) if number in (0, len(arrays) - 1) else (2,)
        if _ndim(each) not in allowed:
            raise ShapeError(
                f"linalg.multi_dot: array {number} has shape {shape_of(each)}; it must be a matrix, the first and the"
                " last one may be vectors"
            )
    letters = [_LETTERS[i : i + 2] for i in range(len(arrays))]
    if _ndim(arrays[0]) == 1:
        letters[0] = letters[0][1:]
    if _ndim(arrays[-1]) == 1:
        letters[-1] = letters[-1][:1]
    output = ("" if _ndim(arrays[0]) == 1 else letters[0][0]) + ("" if _ndim(arrays[-1]) == 1 else letters[-1][-1])
    return einsum_by_pairs([f"{','.join(letters)}->{output}", *arrays])


@composite(np.linalg.matrix_power)
def matrix_power(a: Operand, n: int) -> Operand:
    """np.linalg.matrix_power by repeated squares; negative powers would need an inverse."""
    if _ndim(a) < 2 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(f"linalg.matrix_power: the array has shape {a.shape}; its last two dimensions must be equal")
    if not isinstance(n, int | np.integer):
        raise TypeError(f"linalg.matrix_power: n is {n!r}; it must be a whole number")
    if n < 0:
        raise NotImplementedError("linalg.matrix_power of a negative n")
    if n == 0:
        return np.zeros_like(a) + np.eye(a.shape[-1], dtype=a.dtype)
    if n == 1:
        return np.copy(a)
    result: Operand = None
    square = a
    while n:
        n, odd = divmod(n, 2)
        if odd:
            result = square if result is None else result @ square
        square = square @ square if n else square
    return result


# -- diagonals -----------------------------------------------------------------------------------------------------


@composite(np.trace)
def trace(
    a: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Operand = None
) -> Operand:
    """np.trace."""
    lines, along = _diagonals("trace", a, offset, axis1, axis2)
    return np.sum(lines, axis=along, dtype=dtype)


@composite(np.diagonal)
def diagonal_of(a: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Operand:
    """np.diagonal; the result has memory of its own."""
    return np.moveaxis(*_diagonals("diagonal", a, offset, axis1, axis2), -1)


@composite(np.linalg.diagonal)
def diagonal_of_matrices(x: Operand, *, offset: int = 0) -> Operand:
    """np.linalg.diagonal, of the last two dimensions."""
    return np.diagonal(x, offset, -2, -1)


def _diagonals(name: str, a: Operand, offset: int, axis1: int, axis2: int) -> tuple[Operand, int]:
    """A diagonal of two dimensions, and the dimension along which it lies."""
    first, second = one_axis(name, axis1, a.ndim), one_axis(name, axis2, a.ndim)
    if first == second:
        raise AxisError(f"{name}: axis1 and axis2 are both {first}; they must differ")
    rows, columns = a.shape[first], a.shape[second]
    low, high = max(-offset, 0), max(offset, 0)
    n = max(min(rows - low, columns - high), 0)
    cut = [slice(None)] * a.ndim
    cut[first], cut[second] = slice(low, low + n), slice(high, high + n)
    square = a if (rows, columns, offset) == (n, n, 0) else a[tuple(cut)]
    return diagonal(square, first, second), first if first < second else first - 1


@composite(np.linalg.trace)
def trace_of_matrices(x: Operand, *, offset: int = 0, dtype: Any = None) -> Operand:
    """np.linalg.trace, of the last two dimensions."""
    return np.trace(x, offset, -2, -1, dtype)


# -- norms ---------------------------------------------------------------------------------------------------------


@composite(np.linalg.norm)
def norm(x: Operand, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Operand:
    """np.linalg.norm of vectors, and those of matrices that need no factorisation."""
    size = _sizes(x)
    if axis is None and ord is None:
        return _root_of_squares(size, None, keepdims)
    axes = (
        tuple(range(x.ndim)) if axis is None else several_axes("norm", [axis] if np.ndim(axis) == 0 else axis, x.ndim)
    )
    if len(axes) == 1:
        return _vector_norm(size, 2 if ord is None else ord, axes, keepdims)
    if len(axes) != 2:
        raise ValueError(f"linalg.norm: axis is {axis!r} for shape {x.shape}; it must name one dimension or two")
    return _matrix_norm(size, ord, axes, keepdims)


@composite(np.linalg.vector_norm)
def vector_norm(x: Operand, *, axis: Axis = None, keepdims: bool = False, ord: Any = 2) -> Operand:
    """np.linalg.vector_norm: of the dimensions ``axis`` as one vector."""
    return _vector_norm(_sizes(x), ord, reduced_axes("vector_norm", axis, x.ndim), keepdims)


@composite(np.linalg.matrix_norm)
def matrix_norm(x: Operand, *, keepdims: bool = False, ord: Any = "fro") -> Operand:
    """np.linalg.matrix_norm, of the last two dimensions."""
    return _matrix_norm(_sizes(x), ord, several_axes("matrix_norm", (-2, -1), x.ndim), keepdims)


def _sizes(x: Operand) -> Operand:
    return np.abs(x if x.dtype.kind in "fc" else x.astype(np.float64))


def _root_of_squares(size: Operand, axes: Axis, keepdims: bool) -> Operand:
    return np.sqrt(np.sum(size * size, axes, keepdims=keepdims))


def _vector_norm(size: Operand, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Operand:
    if isinstance(ord, str):
        raise ValueError(f"linalg.norm: ord is {ord!r} for vectors; it must be a number")
    if ord in (np.inf, -np.inf):
        return (np.max if ord > 0 else np.min)(size, axes, keepdims=keepdims)
    if ord == 0:
        return np.sum(size != 0, axes, dtype=size.dtype, keepdims=keepdims)
    if ord == 1:
        return np.sum(size, axes, keepdims=keepdims)
    if ord == 2:
        return _root_of_squares(size, axes, keepdims)
    with np.errstate(divide="ignore"):
        return np.power(np.sum(np.power(size, ord), axes, keepdims=keepdims), 1 / ord)


def _matrix_norm(size: Operand, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Operand:
    if ord in (None, "fro"):
        return _root_of_squares(size, axes, keepdims)
    if ord in (2, -2, "nuc"):
        raise NotImplementedError(f"linalg.norm of matrices with ord={ord!r}, which needs singular values,")
    if ord not in (1, -1, np.inf, -np.inf):
        raise ValueError(
            f"linalg.norm: ord is {ord!r} for matrices; it must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        )
    summed, compared = axes if abs(ord) == 1 else axes[::-1]
    sums = np.sum(size, axis=summed, keepdims=True)
    found = (np.max if ord > 0 else np.min)(sums, axis=compared, keepdims=True)
    return found if keepdims else np.squeeze(found, axis=tuple(sorted(axes)))
