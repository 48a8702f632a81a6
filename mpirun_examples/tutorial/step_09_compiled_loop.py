"""Step 9: a time loop compiled by numba, halo updates included: a HaloExchange is prepared once, then cheap to use.

python -m spmd_grid run -n 2 mpirun_examples/tutorial/step_09_compiled_loop.py
"""

import numba
import numpy as np
from step_01_one_process import SHAPE, hot_corner, serial_heat

import spmd_grid as sg


@numba.njit(nogil=True, cache=True)
def heat(halo, u, new, steps):
    for _ in range(steps):
        halo.update(u)
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                new[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        u[1:-1, 1:-1] = new[1:-1, 1:-1]


def main():
    grid = sg.init_grid((2, -1), axis_names=("x", "y"))
    sharding = sg.Sharding(grid, [["x"], ["y"]], halo_sizes=[1, 1, 1, 1])
    u = sg.from_function(hot_corner, SHAPE, sharding, grid)
    halo = sg.HaloExchange(grid, sharding, SHAPE, "float64", corners=False)  # the stencil reads no corners
    heat(halo, u.local, np.empty_like(u.local), 20)
    whole = u.to_global()
    if grid.rank == 0:
        print(f"equal to the serial result, bit for bit: {np.array_equal(whole, serial_heat(20))}")


if __name__ == "__main__":
    main()
