"""A hang: on one rank a loop never ends, because its data contain a NaN; the others wait for it.

    SPMD_GRID_TIMEOUT=2 mpiexec -n 3 python mpirun_examples/debug/hang_endless.py
    SPMD_GRID_TIMEOUT=2 python -m spmd_grid run -n 3 mpirun_examples/debug/hang_endless.py

The report names the line that the rank is computing.
"""

import numpy as np

import spmd_grid as sg


def square_root(x: float) -> float:
    """Square root by Newton's method."""
    guess = x
    while not abs(guess * guess - x) < 1e-12:  # never true of NaN
        guess = 0.5 * (guess + x / guess)
    return guess


def main() -> None:
    grid = sg.init_grid((-1,), axis_names=("x",))
    values = np.arange(1.0, 5.0) + grid.rank
    total = sg.all_reduce(values.sum(), grid, ["x"], "sum")
    if grid.rank == 0:
        print(f"the sum is {total}")
    if grid.rank == grid.size - 1:
        values[2] = np.nan
    roots = np.array([square_root(x) for x in values])
    norm = sg.all_reduce((roots**2).sum(), grid, ["x"], "sum")
    if grid.rank == 0:
        print("sum of squares", norm)


if __name__ == "__main__":
    main()
