"""A time limit whose signal handler raises: one rank leaves an operation in the middle, and goes on.

    mpiexec -n 2 python mpirun_examples/debug/cut_off_time_limit.py

With plain MPI the rank that caught the exception is one step behind from then on, and mistakes old numbers of the other
for new ones.  Here every later operation reports, on all ranks, which operation was cut off.
"""

import signal
import time
from types import FrameType

import numpy as np

import spmd_grid as sg


def stop(number: int, frame: FrameType | None) -> None:
    raise TimeoutError


def main() -> None:
    grid = sg.init_grid((2,), axis_names=("x",))
    residual = np.ones(3)
    sg.all_reduce(residual, grid, ["x"], "max")
    if grid.rank == 1:
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
    else:
        time.sleep(1)  # a slow step
    try:
        sg.all_reduce(residual, grid, ["x"], "max")
    except TimeoutError:
        print(f"rank {grid.rank}: out of time, one step more")
    sg.all_reduce(residual, grid, ["x"], "max")


if __name__ == "__main__":
    main()
