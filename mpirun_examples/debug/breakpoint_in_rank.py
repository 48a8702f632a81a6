"""A breakpoint in one rank, while the others wait.

    python -m spmd_grid run -n 4 --seed 0 mpirun_examples/debug/breakpoint_in_rank.py

At the prompt, ``p name`` shows a variable of this rank, ``c`` continues.
"""

import numpy as np

import spmd_grid as sg


def main() -> None:
    grid = sg.init_grid((2, -1), axis_names=("y", "x"))
    u = np.arange(3.0) - grid.rank
    if u.min() < -2:
        breakpoint()
    least = sg.all_reduce(u.min(), grid, ["y", "x"], "min")
    if grid.rank == 0:
        print("least:", least)


if __name__ == "__main__":
    main()
