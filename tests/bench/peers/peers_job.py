"""Run on MPI's processes: every hand-written contender must fill every cell of the halo with the neighbours' values."""

import sys

import numpy as np
from mpi4py import MPI

from spmd_grid.bench.halo.cases import fill_faces, wrong_cells
from spmd_grid.bench.halo.peers import hand_written, split_by_hand

comm = MPI.COMM_WORLD


def check(name, update, fields, dim, width, periodic=True):
    for _ in range(2):  # requests that can be started once only are no peers
        fill_faces(fields, dim, width, comm.rank)
        comm.Barrier()
        update()
        wrong = wrong_cells(fields, dim, width, comm.rank, comm.size, periodic)
        assert not any(comm.allgather(wrong)), f"{name}, dim {dim} of {fields[0].ndim}, width {width}: {wrong} wrong"


def halo_of(shape, dim, width):
    return tuple(n + 2 * width * (d == dim) for d, n in enumerate(shape))


def main():
    seen = {}
    for shape in ((5, 7), (5, 6, 7)):
        for dim in range(len(shape)):
            for n_fields in (1, 3):
                for width in (1, 2):
                    fields = [np.zeros(halo_of(shape, dim, width)) for _ in range(n_fields)]
                    for periodic in (True, False):
                        with hand_written(comm, fields, dim, width, periodic) as updates:
                            for name, update in updates.items():
                                check(name, update, fields, dim, width, periodic)
                            seen[n_fields, dim == 0] = list(updates)
    large = np.zeros((600, 700))  # above the eager limit of both libraries
    with hand_written(comm, [large], 0, 100) as updates:
        for name, update in updates.items():
            check(name, update, [large], 0, 100)
    with split_by_hand(comm, large, 0, 100) as (start, test, wait):

        def in_parts():
            start()
            while not test():
                pass
            wait()

        check("in parts", in_parts, [large], 0, 100)
    if comm.rank == 0:
        for (n_fields, contiguous), names in sorted(seen.items()):
            print(n_fields, contiguous, "; ".join(names))


if __name__ == "__main__":
    main()
    sys.exit(0)
