"""Step 6: halos: copies of the neighbours' cells around the own block, refreshed by one call.

python -m spmd_grid run -n 3 mpirun_examples/tutorial/step_06_halos.py
"""

import spmd_grid as sg


def main():
    grid = sg.init_grid((-1,), axis_names=("x",))
    sharding = sg.Sharding(grid, [["x"]], halo_sizes=[1, 1])  # one cell below, one above
    u = sg.zeros((8,), sharding, grid, dtype="int64")
    u.core[...] = 10 * (grid.coords[0] + 1)
    before = u.local.tolist()
    u.update_halo()
    print(f"{grid.coords}: core {u.core.tolist()}, local array {before} -> {u.local.tolist()}")


if __name__ == "__main__":
    main()
