"""Step 10: another algorithm needs another sharding: whole columns, for a sum along them.

python -m spmd_grid run -n 4 mpirun_examples/tutorial/step_10_resharding.py
"""

import numpy as np
from step_01_one_process import SHAPE, hot_corner, serial_heat, smooth

import spmd_grid as sg


def main():
    grid = sg.init_grid((2, -1), axis_names=("x", "y"))
    blocks = sg.Sharding(grid, [["x"], ["y"]], halo_sizes=[1, 1, 1, 1])
    columns = sg.Sharding(grid, [[], ["y", "x"]])  # rows whole; columns cut by both axes
    u = sg.from_function(hot_corner, SHAPE, blocks, grid)
    for _ in range(20):
        u.core[...] = smooth(u.update_halo().local)
    v = u.reshard(columns)
    v.core[...] = np.cumsum(v.core, axis=0)  # no device needs another one's cells
    result = v.reshard(blocks).to_global()
    if grid.rank == 0:
        print(f"device (0, 0) held {u.core.shape}, then {v.core.shape}")
        print(f"equal to the serial result: {np.array_equal(result, np.cumsum(serial_heat(20), axis=0))}")
        plan = sg.plan_reshard(blocks, columns, SHAPE, "float64")
        print(f"each resharding sends {plan.totals().received} of {result.nbytes} bytes")


if __name__ == "__main__":
    main()
