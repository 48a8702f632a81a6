"""Conjugate gradients on a dense, symmetric system, a fixed number of steps, traced and by hand.

    mpiexec -n 2 python mpirun_examples/programs/cg.py

Matrix and vectors are cut by rows: in each step the direction is gathered, and two products of vectors are combined.
"""

import sys
from collections.abc import Callable

import numpy as np
from side_by_side import Problem, check

import spmd_grid as sg

TOLERANCE = 1e-10
STEPS = 12


def cg(matrix, b):
    x, residual, search = 0 * b, b, b
    squared = residual @ residual
    for _ in range(STEPS):
        product = matrix @ search
        step = squared / (search @ product)
        x = x + step * search
        residual = residual - step * product
        previous, squared = squared, residual @ residual
        search = residual + (squared / previous) * search
    return x


def by_hand(grid: sg.ProcessGrid, matrix: np.ndarray, b: np.ndarray) -> Callable[[], np.ndarray]:
    gather = sg.all_gather.plan(grid, b.shape, b.dtype, [0], 0)
    combine = sg.all_reduce.plan(grid, (), b.dtype, [0], "sum")
    whole = grid.allocate((matrix.shape[1],), b.dtype)
    search, product, residual, part = (grid.allocate(b.shape, b.dtype) for _ in range(4))

    def call() -> np.ndarray:
        x = np.zeros_like(b)
        residual[...] = b
        search[...] = b
        squared = combine.run(residual @ residual)
        for _ in range(STEPS):
            np.matmul(matrix, gather.run(search, whole), out=product)
            step = squared / combine.run(search @ product)
            np.multiply(step, search, out=part)
            np.add(x, part, out=x)
            np.multiply(step, product, out=part)
            np.subtract(residual, part, out=residual)
            previous, squared = squared, combine.run(residual @ residual)
            np.multiply(squared / previous, search, out=search)
            np.add(residual, search, out=search)
        return x

    return call


def problem(grid: sg.ProcessGrid, n: int = 96) -> Problem:
    rng = np.random.default_rng(3)
    factor = rng.standard_normal((n, n)) / n**0.5
    arrays = [np.eye(n) + factor @ factor.T, rng.standard_normal(n)]
    rows = sg.Sharding(grid, [[0]])
    return Problem(cg, arrays, [rows, rows], rows, by_hand)


def main() -> int:
    grid = sg.init_grid((-1,))
    return check("cg", problem(grid), grid, TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
