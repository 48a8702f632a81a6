"""A two-layer perceptron whose weights stay where they are, traced and by hand.

    mpiexec -n 2 python mpirun_examples/programs/mlp.py

The 1-d weight-stationary layout: activations are gathered before the first product, and the partial sums after the
second one are combined and cut in one step.
"""

import sys
from collections.abc import Callable

import numpy as np
from side_by_side import Problem, check

import spmd_grid as sg

TOLERANCE = 1e-5  # float32


def mlp(x, w1, w2):
    h = np.maximum(x @ w1, 0)
    return h @ w2


def by_hand(grid: sg.ProcessGrid, x: np.ndarray, w1: np.ndarray, w2: np.ndarray) -> Callable[[], np.ndarray]:
    tokens, width = x.shape[0], w1.shape[0]
    gather = sg.all_gather.plan(grid, x.shape, x.dtype, [0], 1)
    combine = sg.reduce_scatter.plan(grid, (tokens, w2.shape[1]), x.dtype, [0], "sum", 1)
    # Arrays that other processes read lie in memory that they can address; all are made once.
    whole, partial_sums = (grid.allocate((tokens, n), x.dtype) for n in (width, w2.shape[1]))
    h = np.empty((tokens, w1.shape[1]), x.dtype)

    def call() -> np.ndarray:
        np.matmul(gather.run(x, whole), w1, out=h)
        np.maximum(h, 0, out=h)
        return combine.run(np.matmul(h, w2, out=partial_sums))

    return call


def problem(grid: sg.ProcessGrid, tokens: int = 32, width: int = 64) -> Problem:
    rng = np.random.default_rng(1)
    shapes = (tokens, width), (width, 4 * width), (4 * width, width)
    arrays = [rng.standard_normal(shape, np.float32) for shape in shapes]
    columns, rows = sg.Sharding(grid, [[], [0]]), sg.Sharding(grid, [[0], []])
    return Problem(mlp, arrays, [columns, columns, rows], columns, by_hand)


def main() -> int:
    grid = sg.init_grid((-1,))
    return check("mlp", problem(grid), grid, TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
