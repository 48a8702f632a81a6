"""Step 5: a sharded array: every device holds its block as a numpy array, and knows where it lies in the whole.

python -m spmd_grid run -n 4 mpirun_examples/tutorial/step_05_sharded_array.py
"""

from step_01_one_process import SHAPE, hot_corner

import spmd_grid as sg


def main():
    grid = sg.init_grid((2, -1), axis_names=("x", "y"))
    sharding = sg.Sharding(grid, [["x"], ["y"]])
    u = sg.from_function(hot_corner, SHAPE, sharding, grid)  # each device computes its own cells only
    u.core[...] += 1  # u.core is a numpy array that can be written to
    print(f"{grid.coords} owns {u.core.shape} cells, from row {u.global_slices[0].start}, sum {u.core.sum():.0f}")
    whole = u.to_global(root=[0, 0])  # on device (0, 0) the whole array, None elsewhere
    if whole is not None:
        print(f"the whole array is {whole.shape}, its sum {whole.sum():.0f}")


if __name__ == "__main__":
    main()
