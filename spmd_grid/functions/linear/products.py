"""The contraction of two blocks, by numpy's fastest way: matrix products where there are any, which BLAS computes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

__all__ = ["block_product"]


def block_product(inputs: tuple[str, ...], output: str) -> Callable[..., np.ndarray]:
    """The function of one or two blocks that computes the einsum ``inputs -> output``, with numpy's dtypes.

    Local.  Letters that both operands and the output have number matrices; those of one operand and the output are rows
    or columns; those of both operands alone are summed by the product.  Blocks have equal extents along equal letters.

    >>> block_product(("ik", "jk"), "ji")(np.arange(6).reshape(2, 3), np.ones((1, 3), int))
    array([[ 3, 12]])
    """
    subscripts = f"{','.join(inputs)}->{output}"

    def by_einsum(*blocks: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum(subscripts, *blocks))

    if len(inputs) != 2:
        return by_einsum
    x, y = inputs
    stack = [letter for letter in x if letter in y and letter in output]
    left = [letter for letter in x if letter not in y and letter in output]
    right = [letter for letter in y if letter not in x and letter in output]
    summed = [letter for letter in x if letter in y and letter not in output]
    alone = [
        tuple(d for d, letter in enumerate(each) if letter not in other + output) for each, other in ((x, y), (y, x))
    ]
    if not summed or (stack and not left and not right):
        return by_einsum
    kept_x, kept_y = ([letter for d, letter in enumerate(each) if d not in out] for each, out in zip((x, y), alone))
    order_x = [kept_x.index(letter) for letter in (*stack, *left, *summed)]
    order_y = [kept_y.index(letter) for letter in (*stack, *summed, *right)]
    found = [*stack, *left, *right]
    order = [found.index(letter) for letter in output]
    n_stack, n_left, n_summed = len(stack), len(left), len(summed)

    def by_matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if alone[0] or alone[1]:
            dtype = np.result_type(a, b)
            a, b = np.sum(a, alone[0], dtype=dtype), np.sum(b, alone[1], dtype=dtype)
        a, b = a.transpose(order_x), b.transpose(order_y)
        stacked, rows, columns = a.shape[:n_stack], a.shape[n_stack : n_stack + n_left], b.shape[n_stack + n_summed :]
        steps = prod(b.shape[n_stack : n_stack + n_summed])
        product = np.matmul(a.reshape((*stacked, prod(rows), steps)), b.reshape((*stacked, steps, prod(columns))))
        return product.reshape((*stacked, *rows, *columns)).transpose(order)

    return by_matmul
