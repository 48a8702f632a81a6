"""Operations that are started on a communicator, and not waited for when it is freed: as it is, or after a cut."""

import numpy as np
from mpi4py import MPI

import spmd_grid as sg

for is_cut_off in (False, True):
    comm = MPI.COMM_WORLD.Dup()
    grid = sg.init_grid((-1,), comm=comm)
    halo = sg.HaloExchange(grid, sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), (4 * grid.size,), np.float64)
    halo.start(np.zeros(6))
    waits = [halo.wait]
    if grid.rank == 0:
        waits.append(sg.recv.start(grid, [0], [1]).wait)  # of a message that is never sent
    assert grid.process.pending or grid.rank > 0
    comm.Barrier()
    if is_cut_off and grid.rank == 0:
        grid.process.gate.cut_off("a test", TimeoutError())
    comm.Free()
    assert not grid.process.pending
    for wait in waits:
        try:
            wait()
        except sg.CutOffError:
            continue
        raise AssertionError("an operation on a freed communicator went on")

grid = sg.init_grid((-1,))
assert sg.all_reduce(1, grid, [0]) == grid.size
if grid.rank == 0:
    print("freed")
