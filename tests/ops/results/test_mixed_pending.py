"""Started operations on some of the members only, while all take part in blocking ones."""

import numpy as np

import spmd_grid as sg


def test_native_collectives_beside_started_operations(spmd):
    """MPI does not match blocking with nonblocking collectives: all members must take the same forms."""

    def body():
        grid = sg.init_grid((2,))
        if grid.rank == 0:
            received = sg.recv.start(grid, [0], source=[1])
        gathered = sg.all_gather(np.arange(grid.rank + 500), grid, [0], 0)
        copied = sg.broadcast(np.arange(700) if grid.rank == 1 else None, grid, [0], [1])
        if grid.rank == 1:
            sg.send(np.arange(100_000), grid, [0], destination=[0])
            return gathered.size, copied.size, None
        return gathered.size, copied.size, int(received.wait().sum())

    assert spmd(2, body) == [(1001, 700, 4999950000), (1001, 700, None)]
