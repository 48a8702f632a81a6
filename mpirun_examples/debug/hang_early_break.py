"""A hang: each row of devices stops once it has converged itself, but halos are exchanged between rows.

    mpiexec -n 4 python mpirun_examples/debug/hang_early_break.py

One row converges first, leaves the loop and waits for all ranks in the final sum; the other waits for its halo.  No
two processes are in different operations of one *group*, so nothing is compared: the ranks find out after a second that
they wait for one another.  The remedy is to reduce the residual over both axes.
"""

import numpy as np

import spmd_grid as sg

N_ROWS, N_COLUMNS = 16, 16
TOLERANCE = 1e-2


def main() -> None:
    grid = sg.init_grid((2, -1), axis_names=("y", "x"))
    sharding = sg.Sharding(grid, [["y"], ["x"]], halo_sizes=[1, 1, 0, 0])
    u = sg.zeros((N_ROWS, N_COLUMNS), sharding, grid, name="u").local
    u[1:-1] = float(grid.coords[0])  # 0 in the upper half, 1 in the lower one, and 0 around both

    while True:
        sg.update_halo(u, grid, [["y"], ["x"]], [1, 1, 0, 0])
        new = 0.5 * (u[:-2] + u[2:])
        change = np.abs(new - u[1:-1]).max()
        u[1:-1] = new
        if sg.all_reduce(change, grid, ["x"], "max") < TOLERANCE:  # the mistake: not over "y"
            break

    total = sg.all_reduce(u[1:-1].sum(), grid, ["y", "x"], "sum")
    if grid.rank == 0:
        print("total", total)


if __name__ == "__main__":
    main()
