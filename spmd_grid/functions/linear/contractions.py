"""Rules of contractions: products summed along the dimensions that operands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from functools import partial
from operator import index
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.errors import AxisError, DTypeError, ShapeError
from spmd_grid.functions.axes import one_axis, several_axes
from spmd_grid.functions.interface import PARALLEL, Application, Interface, Iterator, shape_of
from spmd_grid.functions.linear.products import block_product
from spmd_grid.functions.linear.subscripts import parse, steps_by_pairs
from spmd_grid.functions.table import Operand, call, composite, rule

__all__ = ["CONTRACTIONS", "contraction", "diagonal", "einsum_by_pairs", "product"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def contraction(
    name: str,
    inputs: Sequence[str],
    output: str,
    operands: tuple[Operand, ...],
    local: Callable[..., Any] | None = None,
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
    if local is None and any(None in each for each in maps):  # a dimension of extent 1 is repeated
        local = partial(np.einsum, f"{','.join(inputs)}->{output}")
    return Application(name, operands, interface, local or block_product(tuple(inputs), output), "sum")


@rule(np.matmul, np.linalg.matmul)
def matmul(
    a: Operand,
    b: Operand,
    *,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
    out: Operand = None,
    out_sharding: object = None,
    memory_limit: int | None = None,
) -> Application:
    """``a @ b`` with numpy's rules for vectors and stacks of matrices.

    ``out_sharding`` and ``memory_limit`` are for the choice of the way.
    """
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


@rule(np.tensordot, np.linalg.tensordot)
def tensordot(
    a: Operand,
    b: Operand,
    axes: int | Sequence[int | Sequence[int]] = 2,
    *,
    out_sharding: object = None,
    memory_limit: int | None = None,
) -> Application:
    """np.tensordot."""
    n_a, n_b = len(shape_of(a)), len(shape_of(b))
    if isinstance(axes, int | np.integer):
        n = index(axes)
        if not 0 <= n <= min(n_a, n_b):
            raise AxisError(f"tensordot: axes is {n}; it must be from 0 to {min(n_a, n_b)}, the fewest dimensions")
        axes = tuple(range(n_a - n, n_a)), tuple(range(n))
    if not isinstance(axes, Sized) or len(axes) != 2:
        raise AxisError(f"tensordot: axes is {axes!r}; it must be a number, or a list for each operand")
    first, second = several_axes("tensordot", axes[0], n_a), several_axes("tensordot", axes[1], n_b)
    if len(first) != len(second):
        raise AxisError(f"tensordot: axes are {axes!r}; both lists must be of equal length")
    of_a, of_b = list(_LETTERS[:n_a]), list(_LETTERS[n_a : n_a + n_b])
    for d, e in zip(first, second):
        if shape_of(a)[d] != shape_of(b)[e]:
            found = f"dimensions {d} and {e} have extents {shape_of(a)[d]} and {shape_of(b)[e]}"
            raise ShapeError(f"tensordot: {found}; they must be equal")
        of_b[e] = of_a[d]
    output = [x for d, x in enumerate(of_a) if d not in first] + [x for e, x in enumerate(of_b) if e not in second]
    return contraction("tensordot", ["".join(of_a), "".join(of_b)], "".join(output), (a, b))


def product(subscripts: str, *operands: Operand) -> Operand:
    """The einsum of one or two operands, without ellipsis and repeated letters in one operand: one contraction."""
    return call(product, subscripts, *operands)


@rule(product)
def product_rule(
    subscripts: str, *operands: Operand, out_sharding: object = None, memory_limit: int | None = None
) -> Application:
    """The rule of `product`."""
    inputs, _, output = subscripts.partition("->")
    return contraction("einsum", inputs.split(","), output, operands)


def diagonal(a: Operand, first: int, second: int) -> Operand:
    """The diagonal of two dimensions of equal extents, along the first of them; the second is left out."""
    along = np.arange(a.shape[first])
    return call(diagonal, a, along, along.copy(), first, second)


@rule(diagonal)
def diagonal_rule(a: Operand, rows: np.ndarray, columns: np.ndarray, first: int, second: int) -> Application:
    """The rule of `diagonal`: the device that holds a cell of it gives its value, the others along the second 0."""
    n = a.shape[first]
    iterators = tuple([Iterator(extent, "sum" if d == second else PARALLEL) for d, extent in enumerate(a.shape)])
    result = tuple([d for d in range(len(a.shape)) if d != second])
    interface = Interface(iterators, (tuple(range(len(a.shape))), (first,), (second,)), (result,))
    if a.shape[second] != n:
        raise ShapeError(f"einsum: a letter that is repeated has extents {n} and {a.shape[second]}; they must be equal")

    def local(block: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        _, at_rows, at_columns = np.intersect1d(rows, columns, assume_unique=True, return_indices=True)
        lines = np.moveaxis(block, (first, second), (0, 1))
        found = np.zeros((lines.shape[0], *lines.shape[2:]), block.dtype)
        found[at_rows] = lines[at_rows, at_columns]
        return np.moveaxis(found, 0, first if first < second else first - 1)

    return Application("einsum", (a, rows, columns), interface, local, "sum")


@composite(np.einsum)
def einsum(
    *operands: Operand,
    out: Operand = None,
    optimize: object = False,
    dtype: DTypeLike | None = None,
    casting: Any = "safe",
) -> Operand:
    """np.einsum: several operands by pairs, in the order with the fewest multiplications."""
    if dtype is None:
        return einsum_by_pairs(operands)
    for each in operands:
        if hasattr(each, "dtype") and not np.can_cast(each.dtype, dtype, casting):
            raise DTypeError(f"einsum: dtype {each.dtype} cannot be cast to {np.dtype(dtype)} by the rule {casting!r}")
    return einsum_by_pairs([each.astype(dtype) if hasattr(each, "dtype") else each for each in operands])


def einsum_by_pairs(arguments: Sequence[Operand], **options: Any) -> Operand:
    """np.einsum of ``arguments``; ``options`` are for the last contraction."""
    inputs, output, operands = parse(arguments)
    for number, letters in enumerate(inputs):
        while len(set(letters)) < len(letters):
            second = next(d for d, letter in enumerate(letters) if letter in letters[:d])
            first = letters.index(letters[second])
            operands[number] = diagonal(operands[number], first, second)
            letters = letters[:second] + letters[second + 1 :]
        inputs = (*inputs[:number], letters, *inputs[number + 1 :])
    result: Operand = None
    steps = steps_by_pairs(inputs, output, tuple(map(shape_of, operands)))
    for number, (positions, letters_of, letters) in enumerate(steps):
        taken = [operands[position] for position in positions]
        operands = [each for position, each in enumerate(operands) if position not in positions]
        subscripts = f"{','.join(letters_of)}->{letters}"
        if any(hasattr(each, "sharding") for each in taken):
            result = call(product, subscripts, *taken, **(options if number == len(steps) - 1 else {}))
        else:
            result = np.einsum(subscripts, *taken)
        operands.append(result)
    return result


# -- generalized ufuncs --------------------------------------------------------------------------------------------


@rule(np.vecdot)
def vecdot(
    a: Operand,
    b: Operand,
    *,
    axis: int = -1,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
    out: Operand = None,
) -> Application:
    """np.vecdot: the sum of ``conjugate(a) * b`` along a dimension of both."""
    shapes = shape_of(a), shape_of(b)
    inputs = []
    n_stack = max(map(len, shapes)) - 1
    for shape in shapes:
        d = one_axis("vecdot", axis, len(shape))
        stack = _LETTERS[n_stack - len(shape) + 1 : n_stack]
        inputs.append(f"{stack[:d]}Z{stack[d:]}")
    if shapes[0][inputs[0].index("Z")] != shapes[1][inputs[1].index("Z")]:
        raise ShapeError(
            f"vecdot: operands have shapes {shapes[0]} and {shapes[1]}; the summed dimensions must be equal"
        )
    options: dict[str, Any] = {"casting": casting} if dtype is None else {"casting": casting, "dtype": dtype}
    return contraction("vecdot", inputs, _LETTERS[:n_stack], (a, b), partial(np.vecdot, axis=axis, **options))


def _with_vectors(ufunc: np.ufunc, vector: int) -> None:
    """Register np.matvec or np.vecmat, products of stacks of matrices and of vectors (operand number ``vector``)."""

    @rule(ufunc)
    def with_vectors(
        a: Operand, b: Operand, *, dtype: DTypeLike | None = None, casting: str = "same_kind", out: Operand = None
    ) -> Application:
        shapes = shape_of(a), shape_of(b)
        ends = ("XZ", "Z") if vector == 1 else ("Z", "ZX")
        if any(len(shape) < len(end) for shape, end in zip(shapes, ends)) or (
            shapes[0][-1] != shapes[1][-1 if vector == 1 else -2]
        ):
            raise ShapeError(
                f"{ufunc.__name__}: operands have shapes {shapes[0]} and {shapes[1]}; they must be stacks of matrices"
                " and of vectors whose summed dimensions are equal"
            )
        n_stack = max(len(shape) - len(end) for shape, end in zip(shapes, ends))
        inputs = [_LETTERS[n_stack - len(shape) + len(end) : n_stack] + end for shape, end in zip(shapes, ends)]
        options: dict[str, Any] = {"casting": casting} if dtype is None else {"casting": casting, "dtype": dtype}
        return contraction(ufunc.__name__, inputs, f"{_LETTERS[:n_stack]}X", (a, b), partial(ufunc, **options))


# The functions whose way is chosen by what it costs.
CONTRACTIONS = {np.matmul, np.linalg.matmul, np.vecdot, np.tensordot, np.linalg.tensordot, product}
for _name, _vector in (("matvec", 1), ("vecmat", 0)):
    if hasattr(np, _name):  # since numpy 2.2
        _with_vectors(getattr(np, _name), _vector)
        CONTRACTIONS.add(getattr(np, _name))
