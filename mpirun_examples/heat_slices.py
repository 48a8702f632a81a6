"""A numpy program on sharded arrays: heat that spreads in a plate, written in plain slices.

    mpiexec -n 4 python mpirun_examples/heat_slices.py
    python -m spmd_grid run -n 4 mpirun_examples/heat_slices.py

``spread`` and ``report`` are numpy code and run unchanged on numpy arrays and on sharded arrays.  Two lines differ
from the serial program: one makes the grid, one says how the plate is spread.  The result equals the serial one, bit
for bit, on any number of ranks.
"""

import sys

import numpy as np

import spmd_grid as sg

SHAPE = (31, 34)
STEPS = 50


def spread(u, steps):
    """Steps of the explicit 5-point scheme; the cells at the rim keep their temperature."""
    u[0, :] = 1.0
    u[10:20, 10:20] = np.arange(10.0)
    for _ in range(steps):
        u[1:-1, 1:-1] += 0.2 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])
    return u


def report(u):
    """The mean and the hottest cell."""
    return np.mean(u), np.unravel_index(np.argmax(u), u.shape)


def main() -> int:
    serial = spread(np.zeros(SHAPE), STEPS)

    grid = sg.init_grid((-1,))
    u = spread(sg.zeros(SHAPE, sg.Sharding(grid, [[0]]), grid), STEPS)

    mean, hottest = report(u)
    serial_mean, serial_hottest = report(serial)
    equal = np.array_equal(u.to_global(), serial) and hottest == serial_hottest and np.isclose(mean, serial_mean)
    if grid.rank == 0:
        print(
            f"heat_slices: {SHAPE[0]} x {SHAPE[1]} cells on {grid.size} ranks, {STEPS} steps: mean {mean:.6f}, hottest"
            f" cell {tuple(map(int, hottest))}, {'equal to' if equal else 'NOT equal to'} the serial result"
        )
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
