"""A program to trace: one rank has more to compute, and the others wait for it.

    SPMD_GRID_TRACE=trace mpiexec -n 4 python mpirun_examples/debug/trace_late_rank.py
    python -m spmd_grid run -n 4 --trace trace mpirun_examples/debug/trace_late_rank.py
    python -m spmd_grid trace trace

The summary shows that rank 1 is longest between operations, and how long the others wait.  https://ui.perfetto.dev
shows trace/trace.json on a time line; trace/matrix.svg shows the bytes sent from rank to rank.
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
        time.sleep(0.005 if grid.rank == 1 else 0.002)  # other computations
    total = sg.all_reduce(np.array([abs(field.core).sum()]), grid, ["y"], "sum")
    rows = field.reshard(sg.Sharding(grid, [[], ["y"]]))
    if grid.rank == 0:
        print(
            f"sum of {EXTENT} x {EXTENT} cells after {STEPS} steps: {total[0]:.6f}; columns here: {rows.local.shape[1]}"
        )


if __name__ == "__main__":
    main()
