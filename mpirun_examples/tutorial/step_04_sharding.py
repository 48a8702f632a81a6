"""Step 4: a sharding says which grid axes cut which dimension of an array. It is a value, and needs no processes.

python mpirun_examples/tutorial/step_04_sharding.py
"""

from itertools import product

import spmd_grid as sg

SHAPE = (12, 10)


def main():
    grid = sg.Grid((2, 3), axis_names=("x", "y"))
    blocks = sg.Sharding(grid, [["x"], ["y"]])  # rows cut by x, columns by y
    rows = sg.Sharding(grid, [["x", "y"], []])  # rows cut by x, then by y; columns whole
    for coords in product(range(2), range(3)):
        (i, j), (k, _) = (sharding.shard_slices(SHAPE, coords) for sharding in (blocks, rows))
        print(f"{coords}: blocks [{i.start}:{i.stop}, {j.start}:{j.stop}], rows [{k.start}:{k.stop}, :]")


if __name__ == "__main__":
    main()
