"""Conjugate gradients on the Poisson equation: numpy's slices move the borders of blocks, sg.dot combines sums.

    mpiexec -n 4 python mpirun_examples/dot_cg.py
    python -m spmd_grid run -n 4 mpirun_examples/dot_cg.py

Solves -laplace(u) = f with the 5-point stencil, where u = 0 on the boundary of the square.  Runs on any number of
ranks, with blocks of different sizes.
"""

import math
import sys

import numpy as np

import spmd_grid as sg

SHAPE = (31, 34)
RESIDUAL = 1e-13  # where the iteration stops, relative to the right-hand side
TOLERANCE = 1e-11


def serial_solution(f: np.ndarray) -> np.ndarray:
    """Solution of the same equations, written as a dense matrix and solved directly."""

    def second_difference(n: int) -> np.ndarray:
        return 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)

    rows, columns = f.shape
    matrix = np.kron(second_difference(rows), np.eye(columns)) + np.kron(np.eye(rows), second_difference(columns))
    return np.linalg.solve(matrix, f.ravel()).reshape(f.shape)


def negative_laplace(p: sg.ShardedArray) -> sg.ShardedArray:
    """-laplace(p) by the 5-point stencil."""
    q = 4 * p
    q[1:] -= p[:-1]
    q[:-1] -= p[1:]
    q[:, 1:] -= p[:, :-1]
    q[:, :-1] -= p[:, 1:]
    return q


def main() -> int:
    n_ranks = sg.init_grid((-1,)).size
    rows = max(d for d in range(1, math.isqrt(n_ranks) + 1) if n_ranks % d == 0)
    grid = sg.init_grid((rows, -1), axis_names=("y", "x"))
    sharding = sg.Sharding(grid, [["y"], ["x"]])

    f = np.random.default_rng(2024).standard_normal(SHAPE)
    u = sg.zeros(SHAPE, sharding, grid)
    residual = sg.from_global(f, sharding, grid)
    search = residual.copy()
    squared = sg.dot(residual, residual)
    enough = RESIDUAL**2 * squared
    iterations = 0
    while squared > enough and iterations < f.size:
        product = negative_laplace(search)
        step = squared / sg.dot(search, product)
        u += step * search
        residual -= step * product
        previous, squared = squared, sg.dot(residual, residual)
        search = residual + squared / previous * search
        iterations += 1

    result, expected = u.to_global(), serial_solution(f)
    error = np.abs(result - expected).max() / np.abs(expected).max()
    if grid.rank == 0:
        print(
            f"dot_cg: {SHAPE[0]} x {SHAPE[1]} unknowns on a {grid.shape[0]} x {grid.shape[1]} grid, {iterations}"
            f" iterations: relative error against numpy.linalg.solve {error:.1e}"
        )
    return 0 if error <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
