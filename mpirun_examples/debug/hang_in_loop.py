"""A hang: in a compiled loop, one rank makes one step fewer than its neighbours.

    SPMD_GRID_TIMEOUT=2 mpiexec -n 3 python mpirun_examples/debug/hang_in_loop.py
    python -m spmd_grid run -n 3 mpirun_examples/debug/hang_in_loop.py

Compiled loops have no Python lines to show: the report names the plan, with the line that made it, and the line that
called the loop.  On simulated ranks the deadlock is detected at once.
"""

import numba
import numpy as np

import spmd_grid as sg


@numba.njit(nogil=True)
def smooth(halo: sg.HaloExchange, u: np.ndarray, new: np.ndarray, steps: int) -> None:
    for _ in range(steps):
        halo.update(u)
        for i in range(1, u.size - 1):
            new[i] = 0.25 * (u[i - 1] + 2 * u[i] + u[i + 1])
        u[1:-1] = new[1:-1]


def main() -> None:
    grid = sg.init_grid((-1,), axis_names=("x",))
    sharding = sg.Sharding(grid, [["x"]], halo_sizes=[1, 1])
    halo = sg.HaloExchange(grid, sharding, (4 * grid.size,), "f8", periodic=True, name="u")
    u, new = grid.allocate((6,), "f8", zeroed=True), grid.allocate((6,), "f8", zeroed=True)
    u[1:-1] = grid.rank
    steps = 10 - (grid.rank == grid.size - 1)  # the mistake
    smooth(halo, u, new, steps)
    total = sg.all_reduce(u[1:-1].sum(), grid, ["x"], "sum")
    if grid.rank == 0:
        print("total", total)


if __name__ == "__main__":
    main()
