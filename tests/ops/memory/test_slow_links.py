"""Runs of plans that do not meet over slow links, and with the fewest tags that MPI may have."""

from support.jobs import check_fine

PROGRAM = """
import ctypes, time
import numpy as np
import spmd_grid as sg
from mpi4py import MPI
from spmd_grid.kernels.ahead import slots
from spmd_grid.ops.loops import piece_program
from spmd_grid.transport.mpi.library import MpiLibrary

posting, word, alive, programs = MpiLibrary.posting, ctypes.c_void_p, [], []
kind = ctypes.CFUNCTYPE(ctypes.c_int, word, ctypes.c_int, word, ctypes.c_int, ctypes.c_int, word, word)

def slow(library, comm, tag):  # and with 32,768 tags
    found = posting(library, comm, tag)
    if tag != MPI.ANY_TAG:
        return found
    send = kind(found.isend)

    def isend(buffer, n_bytes, *others):
        time.sleep(2e-4 if n_bytes > 10_000 else 0)
        return send(buffer, n_bytes, *others)

    alive.append(kind(isend))
    return found._replace(isend=ctypes.cast(alive[-1], word).value, most_tag=40_000)

class Kept(piece_program.PieceProgram):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        programs.append(self._words)

MpiLibrary.posting = slow
from spmd_grid.ops.loops import ahead_run
ahead_run.PieceProgram = Kept

grid = sg.init_grid((-1,))
n, me, root = grid.size, grid.rank, grid.rank == 0
given = ((4 * n, 5000), float) if root else (None, None)
broadcast = sg.broadcast.plan(grid, *given, [0], [0])
scatter = sg.scatter.plan(grid, *given, [0], 0, [0])
cells = np.arange(20_000.0 * n).reshape(4 * n, 5000)
naps = []
for k in range(30):
    assert (broadcast.run(cells + k if root else None) == cells + k).all()
    assert (scatter.run(cells + k if root else None) == cells[4 * me : 4 * me + 4] + k).all()
    naps.append([int(each[slots.NAP + 1]) for each in programs])
assert len(programs) == 2
for each in programs:  # of pieces that come; the first node sends them
    assert bool(each[slots.STEPS]) == (me >= 2)
longest = np.max(naps, axis=0)  # of a run that found other work on the processor it is 0
assert ((100_000 <= longest) & (longest <= 300_000) if me >= 2 else longest == 0).all(), naps
MPI.COMM_WORLD.Barrier()
found = None
try:
    (broadcast if me < 2 else scatter).run(cells if root else None)
    sg.all_reduce(np.ones(1), grid, [0])
except sg.SpmdError as error:
    found = error
for text in ("scatter.plan.run(", "rank 0: broadcast.plan.run(", "run 61 of plans in this group", ", run 61"):
    assert text in str(found), found
print("fine")
"""


def test_who_only_receives_naps_and_tags_tell_runs_apart(tmp_path):
    check_fine(tmp_path, 4, PROGRAM, SPMD_GRID_RANKS_PER_NODE="2")
