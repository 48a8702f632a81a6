"""Run on MPI's processes: every library that is installed must move every cell to its place."""

import sys
from contextlib import ExitStack

import numpy as np
from mpi4py import MPI

from spmd_grid.bench.common.contenders import check
from spmd_grid.bench.common.rows import RESHARD_LIBRARIES
from spmd_grid.bench.libraries.installed import Libraries
from spmd_grid.bench.reshard.cases import ReshardCase, cells_of
from spmd_grid.bench.reshard.libraries import RESHARD_LIBRARY_TYPES
from spmd_grid.grid.device_grid import Grid

comm = MPI.COMM_WORLD

CASES = [
    ReshardCase((8, 12), 0, 1),
    ReshardCase((8, 12), 1, 0),
    ReshardCase((4, 6, 8), 2, 0),
    ReshardCase((4, 6, 8), 1, 2),
    ReshardCase((5, 7), 0, 1),  # some libraries cannot cut it into these blocks
]


def main():
    with Libraries(comm, RESHARD_LIBRARIES, RESHARD_LIBRARY_TYPES) as libraries:
        for case in CASES:
            before, after = case.layouts(Grid((comm.size,)))
            source_box, target_box = before.core_box((comm.rank,)), after.core_box((comm.rank,))
            source, target, skipped = np.empty(source_box.shape), np.empty(target_box.shape), {}
            with ExitStack() as stack:
                for name, contender in libraries.contenders(case, source, target, stack, skipped).items():
                    for first in (0, 1000):
                        sent, expected = (cells_of(box, case.shape, first) for box in (source_box, target_box))
                        check(name, contender, case.name, sent, expected, comm)
                    if comm.rank == 0:
                        print(f"{case.name}: {name} is right")
            for name, figure in libraries.own_figures(case, 1, 0.1, skipped).items():
                if comm.rank == 0:
                    print(f"{case.name}: {name} {'is right' if figure.raw > 0 else 'took no time'}")
            if comm.rank == 0:
                for name, reason in skipped.items():
                    print(f"{case.name}: {name} declines: {reason}")
        if comm.rank == 0:
            for name, version in libraries.versions.items():
                print(f"installed: {name} {version}")
            for name, reason in libraries.skipped.items():
                print(f"skipped: {name}: {reason}")


if __name__ == "__main__":
    main()
    sys.exit(0)
