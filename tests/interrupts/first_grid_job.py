"""Making the first grid on a communicator, interrupted after ever longer delays by a signal's handler that raises."""

import signal
import time

from mpi4py import MPI

import spmd_grid as sg

TRIES = 60
LONGEST = 20.0  # seconds for a handler to raise


class TimeIsUp(Exception):
    """Raised by the handler."""


def handler(number, frame):
    raise TimeIsUp


def time_of_making():
    """Seconds that the making of a grid on a new communicator takes."""
    comm = MPI.COMM_WORLD.Dup()
    start = time.perf_counter()
    sg.init_grid((-1,), comm=comm)
    taken = time.perf_counter() - start
    comm.Free()
    return taken


signal.signal(signal.SIGALRM, handler)
time_of_making()  # imports what it needs
unit = MPI.COMM_WORLD.allreduce(time_of_making(), MPI.MAX)
interrupted = 0
for i in range(TRIES):
    comm = MPI.COMM_WORLD.Dup()
    try:
        if comm.rank == i % comm.size:
            signal.setitimer(signal.ITIMER_REAL, 1e-6 + 1.5 * unit * i / TRIES)
        grid = sg.init_grid((-1,), comm=comm)
        end = time.monotonic() + LONGEST
        while comm.rank == i % comm.size and time.monotonic() < end:
            time.sleep(1e-3)  # until the handler raises; pause() would miss a signal that came just before it
    except TimeIsUp:
        interrupted += 1
        grid = sg.init_grid((-1,), comm=comm)
    assert int(sg.all_reduce(grid.rank + 1, grid, [0])) == comm.size * (comm.size + 1) // 2
    comm.Free()
total = MPI.COMM_WORLD.allreduce(interrupted)
if MPI.COMM_WORLD.rank == 0:
    print(total == TRIES)
