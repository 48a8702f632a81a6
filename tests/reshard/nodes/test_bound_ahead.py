"""Bound reshardings between nodes, whose runs do not meet: results, and what differs is found."""

import pytest
from support.jobs import check_fine

RESULTS = """
import itertools
import numpy as np
import spmd_grid as sg
from support.ops.compiled_runs import in_loop

line = sg.init_grid((-1,))
grid = sg.init_grid((2, 2) if line.size == 4 else (1, line.size))
cuts = [[0, 1], []], [[], [0, 1]], [[], []], [[0], [1]], [[], [0]], [[1, 0], []]
ahead = 0
kinds = ((67, 83), float), ((40, 130), complex), ((9, 14), np.float32), ((3, 40), complex)
for number, (shape, dtype) in enumerate(kinds):
    whole = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    for before, after in itertools.islice(itertools.permutations(cuts, 2), number % 2, None, 2):  # each for two kinds
        before, after = sg.Sharding(grid, before), sg.Sharding(grid, after)
        plan = sg.plan_reshard(before, after, shape, dtype).bind(grid)
        given, kept = (each.shard_slices(shape, grid.coords) for each in (before, after))
        for k in range(7):
            x, want = np.ascontiguousarray(whole[given] + dtype(k)), whole[kept] + dtype(k)
            if k % 3 == 1:
                x, source = grid.allocate(x.shape, dtype), x
                x[...] = source
            out = None if k in (0, 3) else np.zeros(want.shape, dtype)
            if k == 4 and x.shape == want.shape:
                out = x  # in place
            elif k == 5:  # not contiguous
                out = np.zeros((*want.shape, 2), dtype)[..., 0]
            got = plan.run(x, out)
            if got is not x:
                x[...] = 99  # it may be changed now
            assert np.array_equal(got, want) and (out is None or got is out), (before, after, k)
            if k == 3:
                assert sg.all_reduce(np.array(1), line) == line.size
        ahead += plan._ahead is not None and plan._ahead._ahead is not None
assert ahead > 20, ahead
rows, columns = sg.Sharding(grid, [[0, 1], []]), sg.Sharding(grid, [[], [0, 1]])
for n in (16, 2):
    plan = sg.plan_reshard(rows, columns, (4 * n, 80), float).bind(grid)
    x, out = np.zeros((n, 80)), np.zeros((4 * n, 20))
    plan.run(x, out)
    if n == 2:  # what both ranks of the other node need goes to one of them
        assert len(plan._ahead._ahead._run.peers(True)) == 1
    inputs = np.arange(20.0)[:, None, None] + 100 * grid.rank + np.zeros(x.shape)
    results = np.zeros((20, *out.shape))
    for turn in range(3):
        if (grid.rank + turn) % 2:  # in a compiled loop on some, in Python on others
            in_loop(plan, inputs, x, out, results)
        else:
            for each, into in zip(inputs, results):
                plan.run(each, into)
        want = np.arange(20.0)[:, None, None] + np.repeat(100 * np.arange(4), n)[:, None]
        assert (results == want).all()
print("fine")
"""

DIFFERENT = """
import numpy as np
import spmd_grid as sg
from mpi4py import MPI

n, me = MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank
last = n - 1

def attempt(shape, act, *texts):
    grid = sg.init_grid((-1,), comm=MPI.COMM_WORLD.Dup())
    rows, columns = sg.Sharding(grid, [[0], []]), sg.Sharding(grid, [[], [0]])
    plan, other = sg.plan_reshard(rows, columns, shape, float), sg.plan_reshard(columns, rows, shape, float)
    here, back = plan.bind(grid), other.bind(grid)
    x, out = np.full((shape[0] // 4, shape[1]), 7.0), np.zeros((shape[0], shape[1] // 4))
    for _ in range(20):
        here.run(x, out)
        back.run(out, x)
    MPI.COMM_WORLD.Barrier()  # an operation raises at its end if another process has cut off the group by then
    out[:] = -1
    found = None
    try:
        act(here, back, plan, x, out, grid)
        for _ in range(20):
            sg.all_reduce(np.ones(1), grid, [0])
    except sg.SpmdError as error:
        found = error
    assert all(text in str(found) for text in texts), (act.__name__, found)
    assert (out == -1).all() or (out == 7).all()
    try:
        here.run(x, out)
    except sg.SpmdError as error:
        assert "the processes no longer agree" in str(error), error
    else:
        raise AssertionError("operations go on")
    MPI.COMM_WORLD.Barrier()

def another_plan(here, back, plan, x, out, grid):
    if me == last:
        back.run(np.zeros(out.shape))
    else:
        here.run(x, out)

def no_bound_plan(here, back, plan, x, out, grid):
    if me == last:
        plan.run(x, grid, out)
    else:
        here.run(x, out)

def one_run_less(here, back, plan, x, out, grid):
    if me != 0:
        here.run(x, out)

def x_of_another_shape(here, back, plan, x, out, grid):
    here.run(x[1:] if me == 1 else x, out)

for shape in ((200, 120), (20, 12)):
    attempt(shape, another_plan, "run_plan(")
    attempt(shape, no_bound_plan, "run_plan(")
    attempt(shape, one_run_less, "run_plan(", "all_reduce(")
    attempt(shape, x_of_another_shape, f"run_plan: local has shape {(shape[0] // 4 - 1, shape[1])}; ", "(on rank 1 ")
print("fine")
"""


@pytest.mark.parametrize("text", [pytest.param(RESULTS, id="results"), pytest.param(DIFFERENT, id="different")])
def test_on_two_nodes(tmp_path, text):
    check_fine(tmp_path, 4, text, SPMD_GRID_RANKS_PER_NODE="2")
