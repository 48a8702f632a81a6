"""Attention of several heads, each on one process, traced and by hand.

    mpiexec -n 2 python mpirun_examples/programs/attention.py

Every process computes its heads; activations are the same on all.  The only communication combines the sums over
heads.
"""

import sys
from collections.abc import Callable

import numpy as np
from side_by_side import Problem, check

import spmd_grid as sg

TOLERANCE = 1e-5  # float32
DEPTH = 16  # of a head


def attention(x, w_query, w_key, w_value, w_out):
    tokens, heads = x.shape[0], w_query.shape[1] // DEPTH
    q, k, v = ((x @ w).reshape(tokens, heads, DEPTH) for w in (w_query, w_key, w_value))
    scores = q.transpose(1, 0, 2) @ k.transpose(1, 2, 0) / np.float32(DEPTH**0.5)
    weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights = weights / np.sum(weights, axis=-1, keepdims=True)
    found = (weights @ v.transpose(1, 0, 2)).transpose(1, 0, 2)
    return found.reshape(tokens, heads * DEPTH) @ w_out


def by_hand(grid: sg.ProcessGrid, x: np.ndarray, *weights: np.ndarray) -> Callable[[], np.ndarray]:
    w_query, w_key, w_value, w_out = weights
    tokens, heads = x.shape[0], w_query.shape[1] // DEPTH
    combine = sg.all_reduce.plan(grid, (tokens, w_out.shape[1]), x.dtype, [0], "sum")
    partial_sums = grid.allocate((tokens, w_out.shape[1]), x.dtype)
    scale = np.float32(DEPTH**0.5)
    # Arrays of this process's heads, made once.
    q, k, v = (np.empty((tokens, heads * DEPTH), x.dtype) for _ in range(3))
    by_head = [each.reshape(tokens, heads, DEPTH) for each in (q, k, v)]
    queries, keys, values = (each.transpose(order) for each, order in zip(by_head, [(1, 0, 2), (1, 2, 0), (1, 0, 2)]))
    scores = np.empty((heads, tokens, tokens), x.dtype)

    def call() -> np.ndarray:
        for projected, w in ((q, w_query), (k, w_key), (v, w_value)):
            np.matmul(x, w, out=projected)
        np.matmul(queries, keys, out=scores)
        np.divide(scores, scale, out=scores)
        np.subtract(scores, np.max(scores, axis=-1, keepdims=True), out=scores)
        np.exp(scores, out=scores)
        np.divide(scores, np.sum(scores, axis=-1, keepdims=True), out=scores)
        found = (scores @ values).transpose(1, 0, 2).reshape(tokens, heads * DEPTH)
        return combine.run(np.matmul(found, w_out, out=partial_sums))

    return call


def problem(grid: sg.ProcessGrid, tokens: int = 24, heads_each: int = 2) -> Problem:
    rng = np.random.default_rng(2)
    width = heads_each * grid.size * DEPTH
    arrays = [rng.standard_normal((tokens, width), np.float32)]
    arrays += [rng.standard_normal((width, width), np.float32) / np.float32(width**0.5) for _ in range(4)]
    everywhere, columns, rows = (sg.Sharding(grid, axes) for axes in ([], [[], [0]], [[0]]))
    return Problem(attention, arrays, [everywhere, columns, columns, columns, rows], everywhere, by_hand)


def main() -> int:
    grid = sg.init_grid((-1,))
    return check("attention", problem(grid), grid, TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
