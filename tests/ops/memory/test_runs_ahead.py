"""Runs of plans that do not meet, in groups that span nodes: results, and what differs is found."""

import pytest
from support.jobs import check_fine

RESULTS = """
import functools, itertools, time
import numpy as np
import spmd_grid as sg
from support.ops.compiled_runs import in_loop
from support.ops.direct_messages import send_directly

if PER_NODE == 2:
    send_directly()  # lines, too
grid = sg.init_grid((-1,), check=CHECK)
n, me = grid.size, grid.rank

def check(plan, x_of, want_of, dtype):
    assert plan._ahead is not None, plan
    for k in range(9):
        x, want = x_of(k), want_of(k)
        x = None if x is None else np.array(x)
        out = None if want is None else np.zeros(want.shape, dtype)
        if x is not None and k % 4 == 1:
            x, given = grid.allocate(x.shape, x.dtype), x
            x[...] = given
        if k % 3 == 0:
            out = None
        elif out is not None and k % 4 == 2:
            out = grid.allocate(out.shape, dtype)
        elif k == 7 and out is not None and out.ndim:  # neither array is contiguous
            out = np.zeros((*want.shape, 2), dtype)[..., 1]
            x = x if x is None else np.repeat(x[..., None], 2, -1)[..., 0]
        elif k == 8 and x is not None:
            x = x.tolist() if x.dtype == float and x.size else x
        got = plan.run(x, out)
        if x is not None and type(x) is not list:
            x[...] = 77  # it may be changed now
        assert (got is None) == (want is None) and (out is None or got is out)
        if k % 5 == me:
            assert sg.recv(grid, [0], [me], out=None) == k if sg.send(np.array(k), grid, [0], [me]) is None else False
        assert want is None or (got.dtype == dtype and np.array_equal(got, want)), (plan, k, got, want)
    assert sg.all_reduce(np.array(1), grid, [0]) == n  # which compares the runs so far

for root in (0, 1, n - 1):
    kinds = ((5,), float), ((), np.int8), ((0, 3), float), ((7, 9), np.complex128), ((512,), float), ((70, 90), float)
    for shape, dtype in kinds:
        cells = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        mine = (shape, dtype) if me == root else (None, None)
        with sg.broadcast.plan(grid, *mine, [0], [root]) as plan:
            kth = lambda k: (cells + k).astype(dtype)
            check(plan, lambda k: kth(k) if me == root else None, kth, dtype)
    extents = [3, 0, 1, 5][:n]
    rows = np.arange(4 * sum(extents), dtype="i4").reshape(-1, 4)
    starts = np.cumsum([0, *extents])
    own = slice(starts[me], starts[me + 1])
    with sg.gather.plan(grid, (extents[me], 4), "i4", [0], 0, [root], extents=extents) as plan:
        check(plan, lambda k: rows[own] + np.int32(k), lambda k: rows + np.int32(k) if me == root else None, np.int32)
    for dim, m in ((1, 60), (1, 4000), (0, 4000)):
        wide = np.concatenate([np.arange(2.0 * m).reshape(2, m) - i for i in range(n)], dim)
        parts = np.split(wide, n, dim)
        with sg.gather.plan(grid, (2, m), "f8", [0], dim, [root]) as plan:
            check(plan, lambda k: parts[me] + k, lambda k: wide + k if me == root else None, float)
    for rows in (5, 100, 400, 1500):  # of 400 the columns of others are packed in the line
        cells = np.arange(7.0 * rows).reshape(rows, 7)  # uneven blocks of columns
        block = slice(*[min(7, -(-7 // n) * each) for each in (me, me + 1)])
        with sg.scatter.plan(grid, *((rows, 7), float) if me == root else (None, None), [0], 1, [root]) as plan:
            check(plan, lambda k: cells + k if me == root else None, lambda k: cells[:, block] + k, float)
cells = np.arange(8.0 * 1500).reshape(1500, 8)
with sg.scatter.plan(grid, *((cells.shape, float) if me == 0 else (None, None)), [0], 1, [0]) as plan:
    for k in range(30):  # the root is ahead of its mate, who reads copies of parts
        if k == 3 and me == 1:
            time.sleep(0.05)
        x = cells + k if me == 0 else None
        got = plan.run(x)
        if me == 0:
            x[...] = 77
        assert np.array_equal(got, np.split(cells + k, n, 1)[me]), k
for offset in (-3, -2, -1, 1, 2, 5):
    for rotate, fill, m in ((True, None, 3), (False, None, 3), (False, -1.0, 3), (False, -1.0, 3000)):
        source = (me - offset) % n if rotate else me - offset
        def want(k):
            if 0 <= source < n:
                return np.full((2, m), 10.0 * source + k)
            return None if fill is None else np.full((2, m), fill)
        with sg.shift.plan(grid, (2, m), float, [0], 0, offset, rotate, fill) as plan:
            check(plan, lambda k: np.full((2, m), 10.0 * me + k), want, float)
blocks = [[np.full((5, 300), 10.0 * i + j) for j in range(n)] for i in range(n)]
with sg.all_to_all.plan(grid, (5 * n, 300), float, [0], 0, 1) as plan:
    sent, received = np.concatenate(blocks[me], 0), np.concatenate([each[me] for each in blocks], 1)
    check(plan, lambda k: sent + k, lambda k: received + k, float)
for shape, dim in (((60, 6 * n), 1), ((110, 6 * n + 1), 1), ((6 * n + 1, 40), 0)):  # small parts, also of columns
    extent = -(-shape[dim] // n)
    block = (slice(None),) * dim + (slice(extent * me, extent * (me + 1)),)
    whole = [np.arange(float(np.prod(shape))).reshape(shape) + 1e4 * i for i in range(n)]
    received = np.concatenate([each[block] for each in whole], 1 - dim)
    with sg.all_to_all.plan(grid, shape, float, [0], dim, 1 - dim) as plan:
        check(plan, lambda k: whole[me] + k, lambda k: received + k, float)
rows = np.cumsum([0, 40, 0, 300, 41])[: n + 1]
for dim in (0, 1):
    wide = np.arange(90.0 * rows[-1]).reshape(-1, 90) if dim == 0 else np.arange(50.0 * rows[-1]).reshape(50, -1)
    own = np.take(wide, range(rows[me], rows[me + 1]), dim)
    with sg.all_gather.plan(grid, own.shape, float, [0], dim) as plan:
        check(plan, lambda k: own + k, lambda k: wide + k, float)
def by_nodes(combine, arrays):  # the members of a node first, then the nodes: the order decides the bits
    nodes = [arrays[i : i + PER_NODE] for i in range(0, n, PER_NODE)]
    return functools.reduce(combine, [functools.reduce(combine, node) for node in nodes])
ufuncs = {"sum": np.add, "max": np.maximum}
kinds = ((5000,), float, "sum"), ((43, 130), np.float32, "sum"), ((43, 130), np.int16, "max"), ((9000,), np.int8, "sum")
kinds += ((30_011,), float, "sum"), ((130, 431), float, "sum")
for shape, dtype, kind in kinds:
    own = [np.random.default_rng(i).standard_normal(shape) * 100 for i in range(n)]
    result = np.dtype(np.int16 if dtype == np.int8 else dtype)
    folded = lambda k: by_nodes(ufuncs[kind], [(each + k).astype(dtype).astype(result) for each in own])
    given = lambda k: (own[me] + k).astype(dtype)
    with sg.all_reduce.plan(grid, shape, dtype, [0], kind, result) as plan:
        check(plan, given, folded, result)
    with sg.reduce.plan(grid, shape, dtype, [0], kind, [n - 2], result) as plan:
        check(plan, given, lambda k: folded(k) if me == n - 2 else None, result)
    for dim in range(len(shape)):
        extent = -(-shape[dim] // n)
        block = [slice(None)] * dim + [slice(me * extent, (me + 1) * extent)]
        with sg.reduce_scatter.plan(grid, shape, dtype, [0], kind, dim, result) as plan:
            check(plan, given, lambda k: folded(k)[tuple(block)], result)
def check_by_turns(plan, m, steps, want):  # in a compiled loop on some, in Python on others
    x, out, results = np.zeros(m), np.zeros(m), np.zeros((steps, m))
    for turn in range(3):
        base = np.arange(float(steps))[:, None] + steps * turn + np.zeros(m)
        inputs = base + 1000 * me
        if (me + turn) % 2:
            in_loop(plan, inputs, x, out, results)
        else:
            for each, into in zip(inputs, results):
                plan.run(each, into)
        assert (results == want(base)).all()
with sg.all_reduce.plan(grid, (5000,), float, [0]) as plan:
    check_by_turns(plan, 5000, 20, lambda base: n * base + 1000 * sum(range(n)))
with sg.shift.plan(grid, (300,), float, [0], 0, 2, True) as plan:
    check_by_turns(plan, 300, 50, lambda base: base + 1000 * ((me - 2) % n))
plan = sg.broadcast.plan(grid, *((4,), float) if me == 0 else (None, None), [0], [0])
started = plan.start(np.ones(4) if me == 0 else None)  # which meets
plan.run(np.zeros(4) if me == 0 else None)
assert (started.wait() == 1).all()
assert "without a meeting" in plan.describe()

send_directly()
extents = [3, 0, 1, 5][:n]
starts = np.cumsum([0, *extents])
for dim, (k, m) in itertools.product((0, 1), ((4, 5), (4, 12))):
    shape = (k, m * n) if dim else (k * n, m)
    wide = np.arange(float(k * m * n)).reshape(shape)
    own = np.split(wide, n, dim)[me]
    with sg.all_gather.plan(grid, own.shape, float, [0], dim) as plan:
        check(plan, lambda k: own + k, lambda k: wide + k, float)
    whole = [wide + 1000 * i for i in range(n)]
    with sg.all_to_all.plan(grid, shape, float, [0], dim, 1 - dim) as plan:
        received = np.concatenate([np.split(each, n, dim)[me] for each in whole], 1 - dim)
        check(plan, lambda k: whole[me] + k, lambda k: received + k, float)
rows = np.arange(4 * sum(extents), dtype="i4").reshape(-1, 4)
with sg.all_gather.plan(grid, (extents[me], 4), "i4", [0], 0) as plan:
    check(plan, lambda k: rows[starts[me] : starts[me + 1]] + np.int32(k), lambda k: rows + np.int32(k), np.int32)
with sg.all_to_all.plan(grid, (6, 90), float, [0], 0, 1) as plan:  # uneven, and too much for lines beside others
    extent = -(-6 // n)
    sent = [np.arange(540.0).reshape(6, 90) + 1000 * i for i in range(n)]
    received = np.concatenate([each[extent * me : extent * (me + 1)] for each in sent], 1)
    check(plan, lambda k: sent[me] + k, lambda k: received + k, float)
kinds = dict(sum=np.add, product=np.multiply, max=np.maximum, min=np.minimum, bitwise_xor=np.bitwise_xor)
kinds |= dict(bitwise_and=np.bitwise_and, bitwise_or=np.bitwise_or, average=np.add)
arrays = ((7, 9), float), ((), np.float32), ((5, 0), float), ((3, 2, 7), "i4"), ((200,), "u1"), ((9,), bool)
for kind, combine in kinds.items():
    for shape, dtype in arrays:
        dtype = np.dtype(dtype)
        is_of_bits = kind.startswith("bitwise")
        if is_of_bits != (dtype.kind in "bu") or (kind == "average" and dtype.kind != "f"):
            continue
        own = [np.random.default_rng(i).standard_normal(shape) * 100 for i in range(n)]
        def folded(k):
            total = by_nodes(combine, [(each + k).astype("i8").astype(dtype) for each in own])
            return total / dtype.type(n) if kind == "average" else total
        given = lambda k: (own[me] + k).astype("i8").astype(dtype)
        with sg.all_reduce.plan(grid, shape, dtype, [0], kind) as plan:
            check(plan, given, lambda k: np.asarray(folded(k)), dtype)
        with sg.reduce.plan(grid, shape, dtype, [0], kind, [n - 2]) as plan:
            check(plan, given, lambda k: np.asarray(folded(k)) if me == n - 2 else None, dtype)
        for dim in range(len(shape)):
            extent = -(-shape[dim] // n)
            block = [slice(None)] * dim + [slice(me * extent, (me + 1) * extent)]
            with sg.reduce_scatter.plan(grid, shape, dtype, [0], kind, dim) as plan:
                check(plan, given, lambda k: folded(k)[tuple(block)], dtype)
with sg.all_reduce.plan(grid, (30,), float, [0]) as plan:
    check_by_turns(plan, 30, 50, lambda base: n * base + 1000 * sum(range(n)))
with sg.all_reduce.plan(grid, (3,), float, [0], np.hypot) as plan:  # which Python folds
    assert plan._ahead is None and np.allclose(plan.run(np.ones(3)), n**0.5)
print("fine")
"""

DIFFERENT = """
import numpy as np
import spmd_grid as sg
from mpi4py import MPI
from support.ops.direct_messages import send_directly

n, me = MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank
last = n - 1

def attempt(size, act, *texts, reduces=False):
    grid = sg.init_grid((-1,), comm=MPI.COMM_WORLD.Dup())
    of = lambda root: ((size,), float) if me == root else (None, None)
    if reduces:
        plans = [sg.all_reduce.plan(grid, (size,), float, [0], kind) for kind in ("sum", "max")]
    else:
        plans = [sg.broadcast.plan(grid, *of(root), [0], [root]) for root in (0, 1)]
    def run(number=0):
        return plans[number].run(np.full(size, 7.0) if reduces or me == number else None, out)
    out = np.zeros(size)
    for _ in range(20):
        run()
    sg.all_reduce(np.ones(1), grid, [0])
    MPI.COMM_WORLD.Barrier()  # an operation raises at its end if another process has cut off the group by then
    out[:] = -1
    found = None
    try:
        act(grid, run, plans, out)
        for _ in range(20):
            sg.all_reduce(np.ones(1), grid, [0])
    except sg.SpmdError as error:
        found = error
    assert all(text in str(found) for text in texts), (act.__name__, found)
    # Pieces of a large array may have been taken when the members that compare others find the difference.
    assert (size > 4 and not reduces) or any((out == each).all() for each in (-1, 7, 7 * n))
    try:
        run()
    except sg.SpmdError as error:
        assert "the processes no longer agree" in str(error), error
    else:
        raise AssertionError("operations go on")
    MPI.COMM_WORLD.Barrier()

def another_plan_on_the_last(grid, run, plans, out):
    run(1 if me == last else 0)

def another_plan_beside_the_root(grid, run, plans, out):
    run(1 if me == 1 else 0)

def one_run_less_on_the_last(grid, run, plans, out):
    if me != last:
        run()
    for _ in range(30):
        run()

def one_run_less_on_the_root(grid, run, plans, out):
    if me != 0:
        run()

def a_run_in_place_of_a_meeting(grid, run, plans, out):
    if me == last:
        run()

def x_of_another_shape(grid, run, plans, out):
    plans[0].run(np.ones(3) if me == 0 else np.ones(len(out)), out)

def out_that_is_read_only(grid, run, plans, out):
    out.flags.writeable = me != last
    run()

def a_plan_that_is_closed(grid, run, plans, out):
    if me == last:
        plans[0].close()
    run()

for size in (4, 1_500, 20_000):  # of the second one a piece opens the run
    late = ["all_reduce("] if size > 4 else ["different operations", "after 51 runs of plans", "after 50 runs of plans"]
    attempt(size, another_plan_on_the_last, "broadcast.plan.run(grid_axes=[0], root=[1])")
    attempt(size, another_plan_beside_the_root, "broadcast.plan.run(grid_axes=[0], root=[1])")
    attempt(size, one_run_less_on_the_last, *late)
    attempt(size, one_run_less_on_the_root, "all_reduce(", "broadcast.plan.run(")
    attempt(size, a_run_in_place_of_a_meeting, "all_reduce(", "broadcast.plan.run(")
for size in (4, 20_000):
    attempt(size, x_of_another_shape, f"x has shape (3,); the plan is for ({size},) (on rank 0 ")
    attempt(size, out_that_is_read_only, f"out is read-only; it must be writeable (on rank {last} ")
    attempt(size, a_plan_that_is_closed, f"the plan has been closed; make a new one (on rank {last} ")
if PER_NODE > 1:  # else these meet
    for size in (1_500, 20_000):  # of one chunk in each lane, and of several
        for act in (another_plan_on_the_last, another_plan_beside_the_root):
            attempt(size, act, "all_reduce.plan.run(grid_axes=[0], reduction='max')", reduces=True)
        for act in (one_run_less_on_the_last, one_run_less_on_the_root, a_run_in_place_of_a_meeting):
            attempt(size, act, "all_reduce", reduces=True)
    attempt(20_000, x_of_another_shape, "x has shape (3,); the plan is for (20000,) (on rank 0 ", reduces=True)
    attempt(20_000, out_that_is_read_only, f"out is read-only; it must be writeable (on rank {last} ", reduces=True)
send_directly()
for act in (another_plan_on_the_last, another_plan_beside_the_root):
    attempt(4, act, "all_reduce.plan.run(grid_axes=[0], reduction='max')", reduces=True)
for act in (one_run_less_on_the_last, one_run_less_on_the_root, a_run_in_place_of_a_meeting):
    attempt(4, act, "all_reduce", reduces=True)
attempt(4, x_of_another_shape, "x has shape (3,); the plan is for (4,) (on rank 0 ", reduces=True)
print("fine")
"""


@pytest.mark.parametrize(
    ("n", "per_node", "check"),
    [
        (4, "2", "False"),
        (4, "3", "False"),
        *(pytest.param(*each, marks=pytest.mark.full) for each in [(3, "1", "False"), (4, "2", "True")]),
    ],
)
def test_results(tmp_path, n, per_node, check):
    program = RESULTS.replace("CHECK", check).replace("PER_NODE", per_node)
    check_fine(tmp_path, n, program, SPMD_GRID_RANKS_PER_NODE=per_node)


@pytest.mark.parametrize("per_node", ["2", pytest.param("1", marks=pytest.mark.full)])
def test_what_differs_is_found(tmp_path, per_node):
    check_fine(tmp_path, 4, DIFFERENT.replace("PER_NODE", per_node), SPMD_GRID_RANKS_PER_NODE=per_node)
