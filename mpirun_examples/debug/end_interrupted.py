"""A program to interrupt: Ctrl-C ends all ranks, wherever they wait, with one line.

    timeout -s INT 3 mpiexec -n 4 python mpirun_examples/debug/end_interrupted.py

``timeout`` sends the signal that Ctrl-C sends in a terminal.  The exit code is 130, if the launcher passes it on.
"""

import time

import spmd_grid as sg


def main() -> None:
    grid = sg.init_grid((-1,), axis_names=("x",))
    while True:
        if grid.rank == 0:
            time.sleep(60.0)  # a long computation
        sg.all_reduce(1, grid, ["x"], "sum")  # the other ranks wait for it


if __name__ == "__main__":
    main()
