"""Cases of threads that call operations at the same time, each on a communicator of its own.

``threads_job.py EVERY ROUNDS``: one in EVERY pairs of operations runs, and each thread of a crowd makes ROUNDS calls.
"""

import sys

from mpi4py import MPI
from thread_cases import (
    CROWDS,
    check_crowd,
    check_loops,
    check_order,
    check_refusals,
    crowd,
    in_another_order,
    loops_of_one_plan,
    meet_in_the_gate,
    pairs,
    take_turns,
)
from ways_in import WaysIn, compiled_loop

import spmd_grid as sg

loop = compiled_loop()


def run(case, *args):
    """The result of the case on each rank."""
    comm = MPI.COMM_WORLD.Dup()
    told = MPI.COMM_WORLD.allgather(case(sg.init_grid((-1,), comm=comm), loop, MPI.COMM_WORLD.Barrier, *args))
    comm.Free()
    return told


every, rounds = int(sys.argv[1]), int(sys.argv[2])
run(take_turns)
for first, second in pairs(WaysIn(sg.init_grid((-1,))).ways)[::every]:
    check_refusals(run(meet_in_the_gate, first, second), first, second)
check_loops(run(loops_of_one_plan))
for names in CROWDS:
    check_crowd(run(crowd, names, rounds), names)
for name in ("all_reduce", "plan.run of 30,000", "run_plan", "reshard"):
    check_order(run(in_another_order, name), name)
if MPI.COMM_WORLD.rank == 0:
    print("all told")
