"""A two-layer perceptron whose weights never move: the activations do, and partial sums are combined.

    mpiexec -n 2 python mpirun_examples/mlp.py
    python -m spmd_grid run -n 2 mpirun_examples/mlp.py

The 1-d weight-stationary MLP of the RFC "Sharding Framework Design for Device Mesh", with its shapes:

    x 2x4x8 [[], [], [0]]  --gathered-->    2x4x8
    times w1 8x32 [[], [0]], relu           2x4x32 [[], [], [0]]
    times w2 32x8 [[0], []]                 2x4x8, a partial sum on every rank
    --combined-->                           2x4x8

Each product finds by the cost of communication that the weights, which are larger, stay in place.
Runs on any number of ranks; if it does not divide 8 or 32, the last blocks are short or empty.
"""

import sys

import numpy as np

import spmd_grid as sg

TOLERANCE = 1e-6  # float32


def main() -> int:
    grid = sg.init_grid((-1,))
    rng = np.random.default_rng(2024)
    shapes = (2, 4, 8), (8, 32), (32, 8)
    x_whole, w1_whole, w2_whole = (rng.standard_normal(shape, np.float32) for shape in shapes)

    x = sg.from_global(x_whole, sg.Sharding(grid, [[], [], [0]]), grid)
    w1 = sg.from_global(w1_whole, sg.Sharding(grid, [[], [0]]), grid)
    w2 = sg.from_global(w2_whole, sg.Sharding(grid, [[0], []]), grid)
    y = np.maximum(x @ w1, 0) @ w2

    result, expected = y.to_global(), np.maximum(x_whole @ w1_whole, 0) @ w2_whole
    error = np.abs(result - expected).max() / np.abs(expected).max()
    if grid.rank == 0:
        print(
            f"mlp: {grid.size} rank{'s' if grid.size > 1 else ''}, weights {w1.local.shape} and {w2.local.shape}"
            f" on rank 0: relative error against serial numpy {error:.1e}"
        )
    return 0 if error <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
