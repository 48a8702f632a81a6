"""Run on MPI's processes: every hand-written operation must bring what is due, to its place."""

import sys

import numpy as np
from mpi4py import MPI

from spmd_grid.bench.common.contenders import Contender, check
from spmd_grid.bench.common.limit import limits, pieces_of
from spmd_grid.bench.ops.cases import OPS, OpsCase
from spmd_grid.bench.ops.peers import hand_written

comm = MPI.COMM_WORLD


def main():
    for op in OPS:
        for n_bytes in (8, 1 << 10, 120 << 10):  # below and above the eager limit of both libraries
            case = OpsCase(op, n_bytes)
            due = OPS[op].result(case.arrays(comm.size), comm.rank)
            x, out = np.empty(case.shape(comm.size)), None if due is None else np.empty(due.shape)
            with hand_written(comm, op, x, out) as ways:
                for name, way in ways.items():
                    for first in (0, 1000):  # requests that can be started once only are no peers
                        xs = case.arrays(comm.size, first)
                        wanted = OPS[op].result(xs, comm.rank)
                        check(name, Contender(way, x, out), case.name, xs[comm.rank], wanted, comm)
            check_in_place(case, 0 if due is None else due.size)
        if comm.rank == 0:
            print(f"{op}: {'; '.join(ways)}")


def check_in_place(case, n_result):
    """The limit copies as many cells as the result has, those of the others as they are at each call."""
    size = int(np.prod(case.shape(comm.size)))
    with limits(comm, case.op, size, n_result) as found:
        if comm.size == 1 or found is None:
            return
        for first in (0, 1000):
            xs = [x.reshape(-1) for x in case.arrays(comm.size, first)]
            pieces = pieces_of(case.op, comm.rank, comm.size, size, n_result)
            wanted = np.concatenate([np.empty(0), *(xs[rank][:n] for rank, n in pieces)])
            found.waiting.batch(2)
            check("in place", found.in_place, case.name, xs[comm.rank], wanted, comm)
            if "reduce" not in case.op:
                assert wanted.size == n_result


if __name__ == "__main__":
    main()
    sys.exit(0)
