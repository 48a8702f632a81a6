"""Step 1: heat spreads over a plate. Plain numpy in one process; the steps that follow share the work out.

python mpirun_examples/tutorial/step_01_one_process.py
"""

import numpy as np

SHAPE = (12, 10)


def hot_corner(i, j):
    return np.where((i < 3) & (j < 4), 100.0, 0.0)


def smooth(v):
    """The mean of the four neighbours of every cell but those at the border of ``v``."""
    return 0.25 * (v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:])


def serial_heat(steps):
    u = hot_corner(*np.ogrid[: SHAPE[0], : SHAPE[1]])
    for _ in range(steps):
        u = smooth(np.pad(u, 1))  # around the plate it is 0 degrees
    return u


if __name__ == "__main__":
    u = serial_heat(20)
    print(f"after 20 steps: {u.sum():.6f} in all, {u.max():.6f} at most")
