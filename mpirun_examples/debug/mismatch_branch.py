"""A mismatch: some ranks take a branch with an operation in it, while the others are in their next operation.

    mpiexec -n 4 python mpirun_examples/debug/mismatch_branch.py
    python -m spmd_grid run -n 4 mpirun_examples/debug/mismatch_branch.py

Plain MPI matches the two silently, and hangs or mixes up the data.
"""

import numpy as np

import spmd_grid as sg


def main() -> None:
    grid = sg.init_grid((-1,), axis_names=("x",))
    u = np.full(3, float(grid.rank))
    if u.max() > 1:  # the mistake: not the same on all ranks
        u -= sg.all_reduce(u, grid, ["x"], "average")
    print(sg.broadcast(u, grid, ["x"], root=[0]))


if __name__ == "__main__":
    main()
