"""A two-layer perceptron whose weights never move: activations are gathered, partial results reduced and scattered.

    mpiexec -n 2 python mpirun_examples/mlp.py
    python -m spmd_grid run -n 2 mpirun_examples/mlp.py

The 1-d weight-stationary MLP of the RFC "Sharding Framework Design for Device Mesh", with its shapes:

    x 2x4x8 [[], [], [0]]  --all_gather-->  2x4x8
    times w1 8x32 [[], [0]], relu           2x4x32 [[], [], [0]]
    times w2 32x8 [[0], []]                 2x4x8, a partial sum on every rank
    --reduce_scatter-->                     2x4x8 [[], [], [0]]

Runs on any number of ranks; if it does not divide 8 or 32, the last blocks are short or empty.
"""

import sys

import numpy as np

import spmd_grid as sg

TOLERANCE = 1e-6  # float32


def main() -> int:
    grid = sg.init_grid((-1,))
    rng = np.random.default_rng(2024)
    x, w1, w2 = (rng.standard_normal(shape, np.float32) for shape in ((2, 4, 8), (8, 32), (32, 8)))

    last = sg.Sharding(grid, [[], [], [0]])
    x_local = sg.ShardedArray.from_global(x, last, grid).local
    w1_local = sg.ShardedArray.from_global(w1, sg.Sharding(grid, [[], [0]]), grid).local
    w2_local = sg.ShardedArray.from_global(w2, sg.Sharding(grid, [[0], []]), grid).local

    everything = sg.all_gather(x_local, grid, [0], gather_axis=2)
    hidden = np.maximum(everything @ w1_local, 0)
    y_local = sg.reduce_scatter(hidden @ w2_local, grid, [0], "sum", scatter_axis=2)

    result = sg.ShardedArray.from_local(y_local, last, grid, (2, 4, 8)).to_global()
    expected = np.maximum(x @ w1, 0) @ w2
    error = np.abs(result - expected).max() / np.abs(expected).max()
    if grid.rank == 0:
        print(
            f"mlp: {grid.size} rank{'s' if grid.size > 1 else ''}, weights {w1_local.shape} and {w2_local.shape}"
            f" on rank 0: relative error against serial numpy {error:.1e}"
        )
    return 0 if error <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
