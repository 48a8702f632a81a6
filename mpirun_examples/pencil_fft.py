"""A 3-d FFT on a 2-d grid: transforms of whole lines along one dimension, with an all_to_all before the next.

    mpiexec -n 6 python mpirun_examples/pencil_fft.py
    python -m spmd_grid run -n 6 mpirun_examples/pencil_fft.py

Runs on any number of ranks; the blocks have different sizes.
"""

import math
import sys

import numpy as np

import spmd_grid as sg

SHAPE = (45, 52, 38)
TOLERANCE = 1e-12


def main() -> int:
    n_ranks = sg.init_grid((-1,)).size
    rows = max(d for d in range(1, math.isqrt(n_ranks) + 1) if n_ranks % d == 0)
    grid = sg.init_grid((rows, -1), axis_names=("row", "column"))
    rng = np.random.default_rng(2024)
    signal = rng.standard_normal(SHAPE) + 1j * rng.standard_normal(SHAPE)

    x = sg.ShardedArray.from_global(signal, sg.Sharding(grid, [["row"], ["column"], []]), grid).local
    x = np.fft.fft(x, axis=2)
    x = sg.all_to_all(x, grid, ["column"], split_axis=2, concat_axis=1)  # now [[row], [], [column]]
    x = np.fft.fft(x, axis=1)
    x = sg.all_to_all(x, grid, ["row"], split_axis=1, concat_axis=0)  # now [[], [row], [column]]
    x = np.fft.fft(x, axis=0)

    sharding = sg.Sharding(grid, [[], ["row"], ["column"]])
    result = sg.ShardedArray.from_local(x, sharding, grid, SHAPE).to_global()
    expected = np.fft.fftn(signal)
    by_library = sg.fft.fftn(
        sg.from_global(signal, sg.Sharding(grid, [["row"], ["column"]]), grid)
    )  # the same, planned
    errors = [np.abs(each - expected).max() for each in (result, by_library.to_global())]
    error = max(errors) / np.abs(expected).max()
    if grid.rank == 0:
        print(
            f"pencil_fft: {' x '.join(map(str, SHAPE))} on a {grid.shape[0]} x {grid.shape[1]} grid:"
            f" relative error against numpy.fft.fftn {error:.1e}"
        )
    return 0 if error <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
