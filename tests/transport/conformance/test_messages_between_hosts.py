"""send and recv by the part of the library that carries messages between hosts, on one host."""

import pytest
from support.jobs import check_fine, needs_mpich

PINGS = """
import sys
import numpy as np
import spmd_grid as sg
from spmd_grid.transport.mpi.liveness import lifeline

lifeline._WATCH_SECONDS = 1e-4  # a second thread that calls MPI all the time, not ten times a second
grid = sg.init_grid((-1,))
size, rounds = map(int, sys.argv[1:])
x, other = np.empty(size, np.uint8), [1 - grid.rank]
for number in range(rounds):
    for turn in (0, 1):
        if grid.rank == turn:
            x[:] = number % 251 + turn
            sg.send(x, grid, [0], other)
        else:
            sg.recv(grid, [0], other if number % 2 else None, out=x)
            assert (x == number % 251 + turn).all(), (number, turn, x)
print("fine")
"""


@needs_mpich("its setting sends all messages as if between hosts")
@pytest.mark.parametrize(
    ("size", "rounds"),
    [
        pytest.param(8, 700, id="in the frame"),
        pytest.param(3000, 250, id="with bodies"),
        pytest.param(8, 3000, id="in the frame, long", marks=pytest.mark.full),
        pytest.param(3000, 1000, id="with bodies, long", marks=pytest.mark.full),
    ],
)
def test_none_of_many_messages_is_lost(tmp_path, size, rounds):
    """The library loses some that a receive from anybody waits for, where two threads call it: no such receive must
    ever be posted."""
    check_fine(tmp_path, 2, PINGS, str(size), str(rounds), MPIR_CVAR_NOLOCAL="1", SPMD_GRID_TIMEOUT="90")
