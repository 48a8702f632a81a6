"""A message that does not fit: float64 sent to a rank that receives into float32.

    SPMD_GRID_CHECK=1 mpiexec -n 2 python mpirun_examples/debug/mismatch_recv.py

Plain MPI fills the array with halves of numbers.  Here shape and dtype travel with the message, so the receiver always
detects the mismatch; in checking mode the sender's call and line travel with it, too.
"""

import numpy as np

import spmd_grid as sg


def main() -> None:
    grid = sg.init_grid((2,), axis_names=("x",))
    if grid.rank == 0:
        sg.send(np.linspace(0, 1, 5), grid, ["x"], destination=[1])
    else:
        edge = np.zeros(5, "float32")
        sg.recv(grid, ["x"], source=[0], out=edge)
        print(edge)


if __name__ == "__main__":
    main()
