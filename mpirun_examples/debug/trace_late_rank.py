"""A program to be traced: one rank has more to compute, and the others wait for it.

    SPMD_GRID_TRACE=trace mpiexec -n 4 python mpirun_examples/debug/trace_late_rank.py
    python -m spmd_grid run -n 4 --trace trace mpirun_examples/debug/trace_late_rank.py
    python -m spmd_grid trace trace

The summary names rank 1 as the one that is longest between operations, and the others' part of waiting.
https://ui.perfetto.dev shows trace/trace.json on a time line, and trace/matrix.svg who sends how much to whom.
"""

import time

import numpy as np

import spmd_grid as sg

EXTENT = 256
STEPS = 40


def main() -> None:
    grid = sg.init_grid((-1,), axis_names=("y",))
    sharding = sg.Sharding(grid, [["y"], []], halo_sizes=[1, 1])
    field = sg.from_function(lambda i, j: np.sin(i + j), (EXTENT, EXTENT), sharding, grid)
    halo = sg.HaloExchange(grid, sharding, (EXTENT, EXTENT), float, name="field")
    for _ in range(STEPS):
        halo.update(field)
        field.core[...] += 0.1 * (field.local[:-2] - 2 * field.local[1:-1] + field.local[2:])
        time.sleep(0.005 if grid.rank == 1 else 0.002)  # what else there is to compute
    total = sg.all_reduce(np.array([abs(field.core).sum()]), grid, ["y"], "sum")
    rows = field.reshard(sg.Sharding(grid, [[], ["y"]]))
    if grid.rank == 0:
        print(
            f"sum of {EXTENT} x {EXTENT} cells after {STEPS} steps: {total[0]:.6f}; columns here: {rows.local.shape[1]}"
        )


if __name__ == "__main__":
    main()
