"""One rank ends while the others still need it.

    mpiexec -n 4 python mpirun_examples/debug/end_early.py
    python -m spmd_grid run -n 4 mpirun_examples/debug/end_early.py

When a rank ends, the numbers of operations that all ranks have begun are compared, so the report needs no time limit.
The remedy: a rank without work takes part with an empty contribution.
"""

import numpy as np

import spmd_grid as sg

N_TASKS = 7


def main() -> None:
    grid = sg.init_grid((-1,), axis_names=("x",))
    for first in range(0, N_TASKS, grid.size):
        task = first + grid.rank
        if task >= N_TASKS:
            return  # the mistake
        worst = sg.all_reduce(np.sqrt(task), grid, ["x"], "max")
        if grid.rank == 0:
            print(f"round {first // grid.size}: {worst:.3f}")


if __name__ == "__main__":
    main()
