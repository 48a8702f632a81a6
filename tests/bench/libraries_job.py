"""Run on MPI's processes: every library that is installed must bring every cell to its place."""

import sys
from contextlib import ExitStack

import numpy as np
from mpi4py import MPI

from spmd_grid.bench.common.contenders import check
from spmd_grid.bench.common.rows import LIBRARIES
from spmd_grid.bench.reshard.cases import ReshardCase, cells_of
from spmd_grid.bench.reshard.libraries import Peers
from spmd_grid.grid.device_grid import Grid

comm = MPI.COMM_WORLD

CASES = [
    ReshardCase((8, 12), 0, 1),
    ReshardCase((8, 12), 1, 0),
    ReshardCase((4, 6, 8), 2, 0),
    ReshardCase((4, 6, 8), 1, 2),
    ReshardCase((5, 7), 0, 1),  # not all can cut it so
]


def main():
    with Peers(comm, LIBRARIES) as peers:
        for case in CASES:
            before, after = case.layouts(Grid((comm.size,)))
            has, wants = before.core_box((comm.rank,)), after.core_box((comm.rank,))
            source, target, skipped = np.empty(has.shape), np.empty(wants.shape), {}
            with ExitStack() as made:
                for name, contender in peers.contenders(case, source, target, made, skipped).items():
                    for first in (0, 1000):
                        sent, wanted = cells_of(has, case.shape, first), cells_of(wants, case.shape, first)
                        check(name, contender, case.name, sent, wanted, comm)
                    if comm.rank == 0:
                        print(f"{case.name}: {name} is right")
            for name, figure in peers.own_figures(case, 1, 0.1, skipped).items():
                if comm.rank == 0:
                    print(f"{case.name}: {name} {'is right' if figure.raw > 0 else 'took no time'}")
            if comm.rank == 0:
                for name, reason in skipped.items():
                    print(f"{case.name}: {name} declines: {reason}")
        if comm.rank == 0:
            for name, version in peers.versions.items():
                print(f"installed: {name} {version}")
            for name, reason in peers.skipped.items():
                print(f"skipped: {name}: {reason}")


if __name__ == "__main__":
    main()
    sys.exit(0)
