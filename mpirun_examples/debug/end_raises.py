"""One rank raises an exception that the program does not catch, while the others wait for it.

mpiexec -n 4 python mpirun_examples/debug/end_raises.py
"""

import numpy as np

import spmd_grid as sg


def read(name: str) -> np.ndarray:
    with open(name) as file:
        return np.array([float(line) for line in file])


def main() -> None:
    grid = sg.init_grid((2, -1), axis_names=("y", "x"))
    values = read("no such file") if grid.rank == 2 else np.ones(10)
    print(sg.all_gather(values, grid, ["y", "x"], 0))


if __name__ == "__main__":
    main()
