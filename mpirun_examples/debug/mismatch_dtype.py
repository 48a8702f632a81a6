"""A mismatch: one rank has read its data as float32.

    mpiexec -n 4 python mpirun_examples/debug/mismatch_dtype.py

Plain MPI adds the bytes of one dtype to those of another.  Here the error is the same on all ranks, names the rank that
differs, and leaves ``total`` unchanged: a program may catch it and go on.
"""

import numpy as np

import spmd_grid as sg


def main() -> None:
    grid = sg.init_grid((2, -1), axis_names=("y", "x"))
    u = np.ones(1000, "float32" if grid.rank == 2 else "float64")
    total = np.zeros(1000)
    try:
        sg.all_reduce(u, grid, ["y", "x"], "sum", out=total)
    except sg.SpmdError as error:
        if grid.rank == 0:
            print(f"{type(error).__name__}: {error}")
    assert not total.any()
    total = sg.all_reduce(u.astype("float64"), grid, ["y", "x"], "sum")
    if grid.rank == 0:
        print("on float64:", total[:3])


if __name__ == "__main__":
    main()
