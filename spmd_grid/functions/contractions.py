"""Rules of contractions: products summed along the dimensions that operands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import index
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.errors import AxisError, ShapeError
from spmd_grid.functions.axes import several_axes
from spmd_grid.functions.interface import PARALLEL, Application, Interface, Iterator, shape_of
from spmd_grid.functions.table import Operand, composite, rule

__all__ = ["contraction", "matmul_rule"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def contraction(
    name: str, inputs: list[str], output: str, operands: tuple[Operand, ...], local: Callable[..., Any] | None = None
) -> Application:
    """The einsum ``inputs -> output`` of ``operands``, without repeated letters in one operand.  Raises ShapeError."""
    extents: dict[str, int] = {}
    for letters, operand in zip(inputs, operands):
        shape = shape_of(operand)
        if len(letters) != len(shape):
            raise ShapeError(
                f"{name}: operand of shape {shape} has subscripts {letters!r}; it must have one per dimension"
            )
        for letter, n in zip(letters, shape):
            known = extents.setdefault(letter, n)
            if known == 1:
                extents[letter] = n
            elif n not in (1, known):
                raise ShapeError(f"{name}: dimensions {letter!r} have extents {known} and {n}; they must be equal")
    order = [*output, *(letter for letter in extents if letter not in output)]
    number = {letter: i for i, letter in enumerate(order)}
    iterators = tuple([Iterator(extents[letter], PARALLEL if letter in output else "sum") for letter in order])
    maps = tuple(
        [
            tuple([number[letter] if n == extents[letter] else None for letter, n in zip(letters, shape_of(operand))])
            for letters, operand in zip(inputs, operands)
        ]
    )
    interface = Interface(iterators, maps, (tuple([number[letter] for letter in output]),))
    subscripts = f"{','.join(inputs)}->{output}"

    def einsum(*blocks: np.ndarray) -> np.ndarray:
        return np.einsum(subscripts, *blocks, optimize=len(blocks) > 1)

    return Application(name, operands, interface, local or einsum, "sum")


def matmul_rule(
    a: Operand, b: Operand, *, dtype: DTypeLike | None = None, casting: str = "same_kind", out: Operand = None
) -> Application:
    """``a @ b`` with numpy's rules for vectors and stacks of matrices."""
    shapes = shape_of(a), shape_of(b)
    if () in shapes:
        raise ShapeError(f"matmul: operands have shapes {shapes[0]} and {shapes[1]}; both must have a dimension")
    stacks = [shape[:-2] for shape in shapes]
    n_stack = max(map(len, stacks))
    letters = [_LETTERS[n_stack - len(stack) : n_stack] for stack in stacks]
    left, right = "X" if len(shapes[0]) > 1 else "", "Y" if len(shapes[1]) > 1 else ""
    if shapes[0][-1] != shapes[1][-1 if len(shapes[1]) == 1 else -2]:
        raise ShapeError(
            f"matmul: operands have shapes {shapes[0]} and {shapes[1]}; the summed dimensions must be equal"
        )
    inputs = [f"{letters[0]}{left}Z", f"{letters[1]}Z{right}"]
    options: dict[str, Any] = {"casting": casting} if dtype is None else {"casting": casting, "dtype": dtype}
    return contraction("matmul", inputs, f"{_LETTERS[:n_stack]}{left}{right}", (a, b), partial(np.matmul, **options))


@rule(np.tensordot)
def tensordot(a: Operand, b: Operand, axes: int | Sequence[int | Sequence[int]] = 2) -> Application:
    """np.tensordot."""
    n_a, n_b = len(shape_of(a)), len(shape_of(b))
    if isinstance(axes, int | np.integer):
        n = index(axes)
        if not 0 <= n <= min(n_a, n_b):
            raise AxisError(f"tensordot: axes is {n}; it must be from 0 to {min(n_a, n_b)}, the fewest dimensions")
        axes = tuple(range(n_a - n, n_a)), tuple(range(n))
    if len(axes) != 2:
        raise AxisError(f"tensordot: axes is {axes!r}; it must be a number, or a list for each operand")
    first, second = several_axes("tensordot", axes[0], n_a), several_axes("tensordot", axes[1], n_b)
    if len(first) != len(second):
        raise AxisError(f"tensordot: axes are {axes!r}; both lists must be of equal length")
    of_a, of_b = list(_LETTERS[:n_a]), list(_LETTERS[n_a : n_a + n_b])
    for d, e in zip(first, second):
        if shape_of(a)[d] != shape_of(b)[e]:
            raise ShapeError(f"tensordot: dimensions {d} and {e} have extents {shape_of(a)[d]} and {shape_of(b)[e]}")
        of_b[e] = of_a[d]
    output = [x for d, x in enumerate(of_a) if d not in first] + [x for e, x in enumerate(of_b) if e not in second]
    return contraction("tensordot", ["".join(of_a), "".join(of_b)], "".join(output), (a, b))


@rule(np.einsum)
def einsum(subscripts: str, *operands: Operand, out: Operand = None, optimize: bool = False) -> Application:
    """np.einsum, without ellipsis and repeated letters in one operand."""
    if not isinstance(subscripts, str):
        raise NotImplementedError("einsum of lists of subscripts")
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    parts = inputs.split(",")
    if not arrow:
        letters = sorted(set(inputs) - {","})
        output = "".join(letter for letter in letters if inputs.count(letter) == 1)
    if any(len(set(part)) != len(part) or "." in part for part in parts):
        raise NotImplementedError("einsum with an ellipsis or a repeated letter in one operand")
    if len(set(output)) != len(output) or not set(output) <= set(inputs) - {","}:
        raise ShapeError(f"einsum: {subscripts!r} has result {output!r}; its letters must differ, and be of operands")
    if len(parts) != len(operands):
        raise ShapeError(f"einsum: {subscripts!r} is for {len(parts)} operands; there are {len(operands)}")
    return contraction("einsum", parts, output, operands)


@composite(np.dot)
def dot(a: Operand, b: Operand, out: Operand = None) -> Operand:
    """np.dot."""
    n_a, n_b = len(shape_of(a)), len(shape_of(b))
    if 0 in (n_a, n_b):
        return np.multiply(a, b)
    return np.tensordot(a, b, axes=((n_a - 1,), (max(n_b - 2, 0),)))


@composite(np.inner)
def inner(a: Operand, b: Operand) -> Operand:
    """np.inner."""
    n_a, n_b = len(shape_of(a)), len(shape_of(b))
    return np.multiply(a, b) if 0 in (n_a, n_b) else np.tensordot(a, b, axes=((n_a - 1,), (n_b - 1,)))


@composite(np.outer)
def outer(a: Operand, b: Operand, out: Operand = None) -> Operand:
    """np.outer, of arrays flattened to vectors."""
    return np.expand_dims(np.ravel(a), 1) * np.expand_dims(np.ravel(b), 0)


@composite(np.vdot)
def vdot(a: Operand, b: Operand) -> Operand:
    """np.vdot, of arrays flattened to vectors."""
    a = np.conjugate(a) if np.result_type(a.dtype).kind == "c" else a
    return np.tensordot(np.ravel(a), np.ravel(b), axes=1)
