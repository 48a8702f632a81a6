"""A program to be interrupted: Ctrl-C ends all ranks, wherever they wait, with one line.

    timeout -s INT 3 mpiexec -n 4 python mpirun_examples/debug/end_interrupted.py

``timeout`` does here what the key does in a terminal.  The exit code is 130, where the launcher passes it on.
"""

import time

import spmd_grid as sg


def main() -> None:
    grid = sg.init_grid((-1,), axis_names=("x",))
    while True:
        if grid.rank == 0:
            time.sleep(60.0)  # a long computation
        sg.all_reduce(1, grid, ["x"], "sum")  # the others wait for it


if __name__ == "__main__":
    main()
