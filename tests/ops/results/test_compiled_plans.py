"""Plans of operations in numba's compiled loops: as Python's runs, with which they meet, and as strict."""

import numba
import numpy as np
import pytest
from support.jobs import run_job
from support.ops.compiled_runs import in_loop, in_loop_holding, receive, steps, total
from support.patience import at_growing_scales
from support.same_bytes import same_bytes

import spmd_grid as sg
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.crossing_meeting import CrossingMeeting
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.paths import chosen_path
from spmd_grid.kernels.protocol import slots as at

SHAPE, STEPS = (6, 5), 7
MOST_RELAYED = 1 << 18  # bytes of arrays that are relayed at any distance, which compiled runs do too
REDUCTIONS = ["sum", "max", "min", "product", "average"]
# Operations with their arguments on a line of n, and whether this member's array is ignored, or its result.
CASES = {
    "all_gather": lambda n, me: ((1,), False, False),
    "all_to_all": lambda n, me: ((0, 1), False, False),
    "broadcast": lambda n, me: (([n - 1],), me != n - 1, False),
    "gather": lambda n, me: ((0, [0]), False, me != 0),
    "reduce": lambda n, me: (("sum", [n - 1]), False, me != n - 1),
    "reduce_scatter": lambda n, me: (("sum", 0), False, False),
    "scatter": lambda n, me: ((1, [0]), me != 0, False),
    "shift": lambda n, me: ((0, 1), False, me == 0),
}
MORE = {
    **{f"all_reduce by {kind}": ("all_reduce", (kind,)) for kind in REDUCTIONS},
    "reduce_scatter of columns": ("reduce_scatter", ("sum", 1)),
    "shift with a fill": ("shift", (0, 1, False, 2.5)),
    "shift of a ring": ("shift", (0, -1, True)),
    "all_slice": ("all_slice", (0,)),
}


def inputs_of(rank, shape=SHAPE, dtype="f8"):
    rng = np.random.default_rng(rank)
    values = rng.standard_normal((STEPS, *shape)) * 3
    return (values > 0) if dtype == "?" else values.astype(dtype)


def check(grid, name, args, run=in_loop, dtype="f8", shape=SHAPE, ignored=False, nothing=False, made=np.empty):
    """The runs of a plan in a loop give the bits of calls."""
    op, inputs = getattr(sg, name), inputs_of(grid.rank, shape, dtype)
    wanted = [op(x, grid, [0], *args) for x in inputs]
    assert all((each is None) == nothing for each in wanted)
    results = np.full((STEPS, *(shape if nothing else wanted[0].shape)), 77).astype(dtype)
    x, out = made(shape, dtype), made(results.shape[1:], dtype)
    out[...] = results[0]
    described = (None, None) if ignored else (shape, dtype)
    with op.plan(grid, *described, [0], *args) as plan:
        for _ in range(2):
            run(plan, inputs, x, out, results)
            for got, want in zip(results, wanted):
                assert nothing or same_bytes(got, want), (name, args, dtype)
        if run is not steps and name != "all_slice" and max(x.nbytes, out.nbytes // grid.size) <= MOST_RELAYED:
            assert bool(plan._loop._state[at.RUN_READY]) == runs_compiled(grid, plan, x.nbytes), (name, args)
    assert not nothing or (results == 77).all()


def runs_compiled(grid, plan, n_bytes):
    """Whether arrays of this size need no Python: of one member, in a node's memory, or in lines that cross."""
    meeting = meeting_of(grid.group((0,)))
    if grid.size == 1 or plan._ahead is not None:
        return True
    if isinstance(meeting, CrossingMeeting):
        return chosen_path() == "auto" and n_bytes <= at.LINE_ARRAY_BYTES
    return isinstance(meeting, MemoryMeeting) and chosen_path() == "auto"


def check_all(last):
    """All operations; ``last``: the way of the last member."""
    grid = sg.init_grid((-1,))
    n, me = grid.size, grid.rank
    run = last if me == n - 1 else in_loop
    for name, case in CASES.items():
        args, ignored, nothing = case(n, me)
        check(grid, name, args, run, ignored=ignored, nothing=nothing)
    for name, args in MORE.values():
        check(grid, name, args, run)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("last", [in_loop, steps], ids=["compiled", "python"])
def test_all_operations(spmd, n, last, path):
    spmd(n, check_all, last)


def test_loops_that_keep_the_lock(spmd):
    spmd(3, check_all, in_loop_holding)


@pytest.mark.parametrize(("dtype", "kind"), [("i4", "product"), ("?", "sum"), ("c16", "max"), ("i4", "bitwise_xor")])
def test_dtypes(spmd, dtype, kind):
    spmd(3, lambda: check(sg.init_grid((3,)), "all_reduce", (kind,), dtype=dtype))


def test_arrays_that_are_large_or_in_the_nodes_memory(spmd):
    def body():
        grid = sg.init_grid((-1,))
        for shape in ((1, 1), (16, 32), (16, 33), (200, 300)):
            check(grid, "all_reduce", ("sum",), shape=shape, made=grid.allocate)
            check(grid, "all_gather", (0,), shape=shape)

    spmd(2, body)


def test_scalars_and_no_array(spmd):
    """Long enough for members to measure how far apart they are; x is None where it is ignored."""

    def body():
        grid = sg.init_grid((-1,))
        x, out = np.array(1.0), np.empty(())
        with sg.all_reduce.plan(grid, (), "f8") as plan:
            assert total(plan, x, out, 1000 if grid.size == 2 else 10) == grid.size * (grid.size / 2) ** (
                999 if grid.size == 2 else 9
            )
        received = np.zeros(SHAPE)
        with sg.broadcast.plan(grid, *((None, None) if grid.rank else (SHAPE, "f8")), [0], [0]) as plan:
            for _ in range(3):
                receive(plan, received) if grid.rank else plan.run(np.ones(SHAPE), received)
        assert (received == 1).all()

    spmd(2, body)


# -- refusals --------------------------------------------------------------------------------------------------


def refused(error, run, *args):
    with pytest.raises(error) as caught:
        run(*args)
    return str(caught.value)


def refuse_by_turns(last):
    """One member brings what the plan is not for, in the middle: all raise alike, and the plan goes on."""
    grid = sg.init_grid((-1,))
    run = last if grid.rank == grid.size - 1 else in_loop
    inputs = inputs_of(grid.rank)
    x, results = np.empty(SHAPE), np.empty_like(inputs)
    wrong = {
        sg.ShapeError: (np.zeros((5, 6)), np.empty((5, 6))),
        sg.DTypeError: (np.zeros(SHAPE, "i4"), np.empty(SHAPE, "i4")),
        sg.OutputError: (x, x),
    }
    texts = []
    with sg.all_reduce.plan(grid, SHAPE, "f8") as plan:
        out = np.full(SHAPE, -1.0)
        for culprit in range(grid.size):
            for error, (bad, bad_out) in wrong.items():
                run(plan, inputs, x, out, results)
                before = out.copy()
                mine = (bad, bad_out) if grid.rank == culprit else (x, out)
                given = np.zeros((1, *mine[0].shape), mine[0].dtype)
                texts.append(refused(error, run, plan, given, *mine, given.copy()))
                assert np.array_equal(before, out)
        run(plan, inputs, x, out, results)
        wanted = sg.all_reduce(inputs[-1], grid)
        assert np.array_equal(out, wanted)
    texts.append(refused(sg.RequestError, run, plan, inputs, x, out, results))
    return texts


@pytest.mark.parametrize("last", [in_loop, steps], ids=["compiled", "python"])
def test_what_the_plan_is_not_for(spmd, last):
    by_rank = spmd(2, refuse_by_turns, last)
    assert all(texts == by_rank[0] for texts in by_rank)


def test_other_plans(spmd):
    """Members in loops of different plans learn of it, also after the first run."""

    def body():
        grid = sg.init_grid((-1,))
        inputs = inputs_of(grid.rank)
        x, out, results = np.empty(SHAPE), np.empty(SHAPE), np.empty_like(inputs)
        plans = [sg.all_reduce.plan(grid, SHAPE, "f8", [0], kind) for kind in ("sum", "max")]
        for plan in plans:
            in_loop(plan, inputs, x, out, results)
        text = refused(sg.MismatchError, in_loop, plans[grid.rank % 2], inputs, x, out, results)
        in_loop(plans[1], inputs, x, out, results)
        assert np.array_equal(out, sg.all_reduce(inputs[-1], grid, [0], "max"))
        return text

    by_rank = spmd(2, body)
    assert all("'sum'" in text and "'max'" in text for text in by_rank)


def test_what_is_no_array():
    @numba.njit
    def number(plan, out):
        plan.run(1.0, out)

    @numba.njit
    def no_result(plan, x):
        plan.run(x, None)

    def body():
        x = np.ones(3)
        with sg.all_reduce.plan(sg.init_grid((1,)), (3,), "f8") as plan:
            with pytest.raises(numba.TypingError, match="x is float64, and must be an array or None"):
                number(plan, x)
            with pytest.raises(numba.TypingError, match="out is none"):
                no_result(plan, x)

    sg.run_spmd(body, ranks=1)


def test_plans_of_reshardings():
    """They are bound to no grid, and no compiled function takes them."""
    grid = sg.Grid((2,))
    plan = sg.plan_reshard(sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[]]), (4,), "f8")
    with pytest.raises(sg.RequestError, match=r"resharding .* which no processes run; give it plan.bind\(grid\)"):
        receive(plan, np.ones(4))


# -- reports ---------------------------------------------------------------------------------------------------

PROGRAM = """
import sys, time
import numpy as np
import spmd_grid as sg
from support.ops.compiled_runs import total

way, limit = sys.argv[1], float(sys.argv[2])
grid = sg.init_grid((-1,))
plan = sg.all_reduce.plan(grid, (), "f8", name="residual")
x, out = np.array(1.0), np.empty(())
total(plan, x, out, 20)
if way == "hang":
    sg.init_grid((-1,), timeout=limit)
if grid.rank == 1:
    if way == "hang":
        time.sleep(30 * limit)
    elif way == "raise":
        raise KeyError("lost")
    else:
        sys.exit()
total(plan, x, out, 5)
"""


@pytest.mark.parametrize("way", ["hang", "raise", "end"])
@at_growing_scales(1, 4, 12)
def test_waits_for_ever(tmp_path, way, scale):
    (tmp_path / "app.py").write_text(PROGRAM)
    job = run_job("mpiexec", 2, tmp_path / "app.py", way, str(scale))
    assert job.code not in (0, 124), job
    if way == "hang":
        named = "all_reduce.plan.run(grid_axes=[0], reduction='sum') 'residual', made at app.py:9, in a compiled loop"
        assert named in job.err, job
    elif way == "raise":
        assert "KeyError" in job.err
    else:
        assert "rank 1" in job.err and "all_reduce.plan.run" in job.err, job
