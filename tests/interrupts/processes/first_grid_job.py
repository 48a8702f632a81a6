"""Making the first grid on a communicator, interrupted after ever longer delays by a signal's handler that raises."""

import signal
import sys
import time

from mpi4py import MPI

import spmd_grid as sg

TRIES = 60
LONGEST = 20.0  # seconds for a signal to arrive

came = 0


class TimeIsUp(Exception):
    """Raised by the handler."""


def handler(number, frame):
    global came
    came += 1
    raise TimeIsUp


def ignore_time_limits(unraisable, hook=sys.unraisablehook):
    """Python drops what a handler raises within a destructor or the callback of a weak reference."""
    if unraisable.exc_type is not TimeIsUp:
        hook(unraisable)


def time_of_making():
    """Seconds that the making of a grid on a new communicator takes."""
    comm = MPI.COMM_WORLD.Dup()
    start = time.perf_counter()
    sg.init_grid((-1,), comm=comm)
    taken = time.perf_counter() - start
    comm.Free()
    return taken


signal.signal(signal.SIGALRM, handler)
sys.unraisablehook = ignore_time_limits
time_of_making()  # imports what it needs
unit = MPI.COMM_WORLD.allreduce(time_of_making(), MPI.MAX)
turns = 0
for i in range(TRIES):
    comm = MPI.COMM_WORLD.Dup()
    try:
        if comm.rank == i % comm.size:
            turns += 1
            signal.setitimer(signal.ITIMER_REAL, 1e-6 + 1.5 * unit * i / TRIES)
        grid = sg.init_grid((-1,), comm=comm)
        end = time.monotonic() + LONGEST
        while came < turns and time.monotonic() < end:  # not pause(): the signal may come just before it
            time.sleep(1e-3)
    except TimeIsUp:
        grid = sg.init_grid((-1,), comm=comm)
    assert int(sg.all_reduce(grid.rank + 1, grid, [0])) == comm.size * (comm.size + 1) // 2
    comm.Free()
all_came = MPI.COMM_WORLD.allreduce(came == turns, MPI.LAND)
if MPI.COMM_WORLD.rank == 0:
    print(all_came)
