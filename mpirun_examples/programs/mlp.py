"""A two-layer perceptron whose weights stay where they are, traced and by hand.

    mpiexec -n 2 python mpirun_examples/programs/mlp.py

The first matrix is cut by columns, the second by rows; activations are the same on all processes.  The only
communication combines the partial sums of the second product.
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
    combine = sg.all_reduce.plan(grid, (x.shape[0], w2.shape[1]), x.dtype, [0], "sum")
    # An array that other processes read lies in memory that they can address; both are made once.
    partial_sums = grid.allocate((x.shape[0], w2.shape[1]), x.dtype)
    h = np.empty((x.shape[0], w1.shape[1]), x.dtype)

    def call() -> np.ndarray:
        np.matmul(x, w1, out=h)
        np.maximum(h, 0, out=h)
        return combine.run(np.matmul(h, w2, out=partial_sums))

    return call


def problem(grid: sg.ProcessGrid, tokens: int = 32, width: int = 64) -> Problem:
    rng = np.random.default_rng(1)
    shapes = (tokens, width), (width, 4 * width), (4 * width, width)
    arrays = [rng.standard_normal(shape, np.float32) for shape in shapes]
    everywhere, columns, rows = (sg.Sharding(grid, axes) for axes in ([], [[], [0]], [[0]]))
    return Problem(mlp, arrays, [everywhere, columns, rows], everywhere, by_hand)


def main() -> int:
    grid = sg.init_grid((-1,))
    return check("mlp", problem(grid), grid, TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
