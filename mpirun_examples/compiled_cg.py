"""Conjugate gradients whose whole loop is compiled by numba: halo updates and dot products, no step in Python.

    mpiexec -n 4 python mpirun_examples/compiled_cg.py
    python -m spmd_grid run -n 4 mpirun_examples/compiled_cg.py

Solves -laplace(u) = f with the 5-point stencil, where u = 0 on the boundary of the square.  Runs on any number of
ranks, with blocks of different sizes.  The loop takes a HaloExchange and a plan of all_reduce as arguments.
"""

import math
import sys

import numba
import numpy as np

import spmd_grid as sg

SHAPE = (31, 34)
RESIDUAL = 1e-13  # where the iteration stops, relative to the right-hand side
TOLERANCE = 1e-11


@numba.njit(nogil=True, cache=True)
def dot(plan, a, b, part, whole):
    """The scalar product over all ranks, of the cells inside the halos."""
    part[0] = 0.0
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            part[0] += a[i, j] * b[i, j]
    plan.run(part, whole)
    return whole[0]


@numba.njit(nogil=True, cache=True)
def solve(halo, plan, u, residual, most):
    """Improves ``u``, of which ``residual`` is the residual; the number of iterations."""
    search, product = residual.copy(), np.zeros_like(residual)
    part, whole = np.empty(1), np.empty(1)
    squared = dot(plan, residual, residual, part, whole)
    enough = RESIDUAL**2 * squared
    for iteration in range(most):
        if squared <= enough:
            return iteration
        halo.update(search)
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                around = search[i - 1, j] + search[i + 1, j] + search[i, j - 1] + search[i, j + 1]
                product[i, j] = 4 * search[i, j] - around
        step = squared / dot(plan, search, product, part, whole)
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] += step * search[i, j]
                residual[i, j] -= step * product[i, j]
        before, squared = squared, dot(plan, residual, residual, part, whole)
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                search[i, j] = residual[i, j] + squared / before * search[i, j]
    return most


def serial_solution(f: np.ndarray) -> np.ndarray:
    """Solution of the same equations, written as a dense matrix and solved directly."""

    def second_difference(n: int) -> np.ndarray:
        return 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)

    rows, columns = f.shape
    matrix = np.kron(second_difference(rows), np.eye(columns)) + np.kron(np.eye(rows), second_difference(columns))
    return np.linalg.solve(matrix, f.ravel()).reshape(f.shape)


def main() -> int:
    n_ranks = sg.init_grid((-1,)).size
    rows = max(d for d in range(1, math.isqrt(n_ranks) + 1) if n_ranks % d == 0)
    grid = sg.init_grid((rows, -1), axis_names=("y", "x"))
    sharding = sg.Sharding(grid, [["y"], ["x"]], halo_sizes=[1, 1, 1, 1])
    halo = sg.HaloExchange(grid, sharding, SHAPE, "float64", corners=False)  # the stencil reads no corners
    plan = sg.all_reduce.plan(grid, (1,), "float64")

    f = np.random.default_rng(2024).standard_normal(SHAPE)
    u = sg.zeros(SHAPE, sharding, grid)
    iterations = solve(halo, plan, u.local, sg.from_global(f, sharding, grid).local, f.size)
    u.mark_dirty()

    result, expected = u.to_global(), serial_solution(f)
    error = np.abs(result - expected).max() / np.abs(expected).max()
    if grid.rank == 0:
        print(
            f"compiled_cg: {SHAPE[0]} x {SHAPE[1]} unknowns on a {grid.shape[0]} x {grid.shape[1]} grid, {iterations}"
            f" iterations: relative error against numpy.linalg.solve {error:.1e}"
        )
    return 0 if error <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
