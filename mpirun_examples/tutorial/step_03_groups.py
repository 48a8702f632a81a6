"""Step 3: operations work within groups: the devices whose coordinates differ along the named axes only.

python -m spmd_grid run -n 4 mpirun_examples/tutorial/step_03_groups.py
"""

import numpy as np

import spmd_grid as sg


def main():
    grid = sg.init_grid((2, 2), axis_names=("x", "y"))
    mine = np.array([10 * grid.coords[0] + grid.coords[1]])
    row = sg.all_gather(mine, grid, ["y"], gather_axis=0)
    total = sg.all_reduce(mine, grid, ["x", "y"], "sum")
    left = sg.shift(mine, grid, ["y"], shift_axis="y", offset=1)  # None where there is no device to the left
    print(f"{grid.coords}: row {row}, total {total}, from the left {left}")


if __name__ == "__main__":
    main()
