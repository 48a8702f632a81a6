"""Step 8: iterate until nothing changes much: reductions of sharded arrays give every device the same number.

python -m spmd_grid run -n 4 mpirun_examples/tutorial/step_08_reductions.py
"""

from step_01_one_process import SHAPE, hot_corner, smooth

import spmd_grid as sg


def main():
    grid = sg.init_grid((2, -1), axis_names=("x", "y"))
    sharding = sg.Sharding(grid, [["x"], ["y"]], halo_sizes=[1, 1, 1, 1])
    u = sg.from_function(hot_corner, SHAPE, sharding, grid)
    change = sg.zeros(SHAPE, sharding, grid)
    steps, largest = 0, float("inf")
    while largest > 0.5:  # the same number on all devices, so all of them leave the loop together
        new = smooth(u.update_halo().local)
        change.core[...] = abs(new - u.core)
        u.core[...] = new
        steps, largest = steps + 1, sg.max(change)
    exact = sg.sum(u, reproducible=True)  # the same bits on any number of devices
    if grid.rank == 0:
        print(f"{steps} steps, then the largest change is {largest:.6f}; {float(exact)!r} in all")


if __name__ == "__main__":
    main()
