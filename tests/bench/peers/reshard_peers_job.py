"""Run on MPI's processes: every hand-written contender must bring every cell to its place."""

import sys

import numpy as np
from mpi4py import MPI

from spmd_grid.bench.reshard.cases import ReshardCase, cells_of
from spmd_grid.bench.reshard.peers import hand_written
from spmd_grid.grid.device_grid import Grid

comm = MPI.COMM_WORLD

CASES = [
    *(ReshardCase((5, 7), *cuts) for cuts in ((0, 1), (1, 0))),
    *(ReshardCase((2, 4), *cuts) for cuts in ((0, 1), (1, 0))),  # of 3 ranks one has nothing
    *(ReshardCase((4, 5, 6), *cuts) for cuts in ((0, 2), (2, 0), (0, 1), (1, 2), (2, 1))),
    ReshardCase((600, 700), 0, 1),  # above the eager limit of both libraries
]


def main():
    for case in CASES:
        before, after = case.layouts(Grid((comm.size,)))
        has, wants = before.core_box((comm.rank,)), after.core_box((comm.rank,))
        source, target = np.empty(has.shape), np.empty(wants.shape)
        with hand_written(comm, source, target, before, after) as updates:
            for name, update in updates.items():
                for first in (0, 1000):  # requests that can be started once only are no peers
                    source[...] = cells_of(has, case.shape, first)
                    target.fill(np.nan)
                    comm.Barrier()
                    update()
                    wrong = int((target != cells_of(wants, case.shape, first)).sum())
                    assert not any(comm.allgather(wrong)), f"{name}, {case.name}: {wrong} cells wrong"
    if comm.rank == 0:
        print("; ".join(updates))


if __name__ == "__main__":
    main()
    sys.exit(0)
