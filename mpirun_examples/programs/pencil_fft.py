"""A step of a spectral method by a pencil FFT on a 2-d grid of processes, traced and by hand.

    mpiexec -n 2 python mpirun_examples/programs/pencil_fft.py

Lines along one dimension are whole on a process; before the transform along another one, an all_to_all makes those
whole.  The step multiplies the transform by a filter.
"""

import sys
from collections.abc import Callable

import numpy as np
from side_by_side import Problem, check, near_square

import spmd_grid as sg

TOLERANCE = 1e-12


def pencil_fft(x, transfer):
    x = np.fft.fft(x, axis=2)
    x = np.fft.fft(x, axis=1)
    x = np.fft.fft(x, axis=0)
    return x * transfer


def by_hand(grid: sg.ProcessGrid, x: np.ndarray, transfer: np.ndarray) -> Callable[[], np.ndarray]:
    first = sg.all_to_all.plan(grid, x.shape, x.dtype, [1], 2, 1)  # [[0],[1],[]] -> [[0],[],[1]]
    lines = grid.allocate(x.shape, x.dtype)
    after_first = first.run(x)  # its shape is that of the arrays between
    second = sg.all_to_all.plan(grid, after_first.shape, x.dtype, [0], 1, 0)  # -> [[],[0],[1]]

    def call() -> np.ndarray:
        np.fft.fft(x, axis=2, out=lines)
        between = first.run(lines, after_first)
        np.fft.fft(between, axis=1, out=between)
        found = second.run(between)
        np.fft.fft(found, axis=0, out=found)
        return np.multiply(found, transfer, out=found)

    return call


def problem(grid: sg.ProcessGrid, n: int = 12) -> Problem:
    rng = np.random.default_rng(5)
    shape = n, n + 2, n - 4
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    transfer = rng.standard_normal(shape)
    lines, found = sg.Sharding(grid, [[0], [1], []]), sg.Sharding(grid, [[], [0], [1]])
    return Problem(pencil_fft, [x, transfer], [lines, found], found, by_hand)


def main() -> int:
    grid = sg.init_grid(near_square(sg.init_grid((-1,)).size))
    return check("pencil_fft", problem(grid), grid, TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
