"""Reshardings that are one compiled call after some runs, from Python and in compiled loops: as Python's own runs."""

import time

import numpy as np
import pytest
from support.ops.compiled_runs import in_loop, in_loop_holding, steps
from support.same_bytes import same_bytes

import spmd_grid as sg
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.paths import chosen_path
from spmd_grid.kernels.protocol import slots as at

RUNS = 20
WAYS = {
    "rows to columns": ([[0]], [[], [0]]),
    "columns to rows": ([[], [0]], [[0]]),
    "rows to all": ([[0]], [[]]),
    "all to columns": ([[]], [[], [0]]),
}


def is_quick(grid):
    """Whether small reshardings between several processes need no Python: where they share memory."""
    comm = grid.group((0,))
    memory = not comm.shares_objects and isinstance(meeting_of(comm), MemoryMeeting)
    return memory and comm.size > 1 and chosen_path() == "auto"


def case(grid, way, shape, dtype="f8"):
    """A plan, the parts of this process, before and after, of an array, and that array."""
    source, target = (sg.Sharding(grid, split) for split in WAYS[way])
    whole = (np.arange(np.prod(shape)).reshape(shape) * 3 + 1).astype(dtype)
    own, there = (layout.shard_slices(shape, grid.coords) for layout in (source, target))
    return sg.plan_reshard(source, target, shape, dtype), own, there, whole


def check_ways(way, shape, dtype="f8"):
    """Calls, runs of the plan and of the bound plan, with and without ``out``, by turns."""
    grid = sg.init_grid((-1,))
    plan, own, there, whole = case(grid, way, shape, dtype)
    bound = plan.bind(grid)
    out = np.empty_like(whole[there])
    for k in range(RUNS):
        given, wanted = whole[own] + np.array(k, dtype), whole[there] + np.array(k, dtype)
        found = [sg.run_plan(plan, given, grid), plan.run(given, grid), bound.run(given), bound.run(given.copy("F"))]
        assert all(same_bytes(each, wanted) for each in found), (way, shape, k)
        assert len({id(each) for each in found}) == len(found)
        for run, args in ((plan.run, (grid, out)), (bound.run, (out,))):
            out[...] = 0
            assert run(given, *args) is out and same_bytes(out, wanted)
        strided = np.empty((*out.shape, 2), dtype)[..., 0]
        assert bound.run(given, strided) is strided and same_bytes(strided, wanted)
    quick = bound._prepared.quick_for(plan)  # None where others have run the plan before, or have pinned too many
    if quick is not None and way != "all to columns" and whole.size:
        assert len(quick._runs) == 2


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("way", WAYS)
def test_all_ways(spmd, n, way):
    spmd(n, check_ways, way, (37, 26))


@pytest.mark.parametrize("splits", [([[1, 0]], [[], [0, 1]]), ([[1], [0]], [[0], [1]])], ids=str)
def test_several_steps_of_large_boxes(spmd, splits):
    """No step's boxes are read before they are there, however late a process is."""

    def body():
        grid = sg.init_grid((2, 2))
        source, target = (sg.Sharding(grid, split) for split in splits)
        shape = (301, 400)
        plan = sg.plan_reshard(source, target, shape, "f8", strategy="basis")
        assert len(plan.moves) > 1
        whole = np.arange(np.prod(shape), dtype="f8").reshape(shape)
        own, there = (layout.shard_slices(shape, grid.coords) for layout in (source, target))
        bound, out = plan.bind(grid), np.empty_like(whole[there])
        for k in range(RUNS):
            if k % grid.grid.size == grid.rank:
                time.sleep(0.001)
            assert np.array_equal(bound.run(whole[own] * k, out), whole[there] * k)
            if k % 3 == 0:
                assert np.array_equal(plan.run(whole[own] - k, grid), whole[there] - k)

    spmd(4, body)


@pytest.mark.parametrize(("shape", "dtype"), [((2, 3), "i2"), ((0, 5), "f4"), ((300, 500), "c16"), ((9, 7), "?")])
def test_sizes_and_dtypes(spmd, shape, dtype):
    """Uneven, some without cells, and some of several steps."""
    spmd(3, check_ways, "rows to columns", shape, dtype)


@pytest.mark.parametrize("path", ["direct", "inline", "message", "staged", "packed"])
def test_paths(spmd, path):
    with sg.forced_path(path):
        spmd(2, check_ways, "columns to rows", (8, 12))


def check_loop(run, shape):
    grid = sg.init_grid((-1,))
    plan, own, there, whole = case(grid, "rows to columns", shape)
    bound = plan.bind(grid)
    inputs = np.array([whole[own] * k - 2 for k in range(RUNS)])
    x, out = np.empty(inputs.shape[1:]), np.empty_like(whole[there])
    results = np.empty((RUNS, *out.shape))
    for _ in range(2):
        results[:] = 0
        run(bound, inputs, x, out, results)
        assert all(np.array_equal(found, whole[there] * k - 2) for k, found in enumerate(results))
    if run is not steps:
        assert bool(bound._loop._state[at.RUN_READY]) == is_quick(grid)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("shape", [(6, 5), (400, 300)], ids=str)
def test_compiled_loops(spmd, n, shape):
    spmd(n, check_loop, in_loop, shape)


def test_loops_that_keep_the_lock_and_loops_of_python(spmd):
    def body():
        grid = sg.init_grid((-1,))
        check_loop(in_loop_holding if grid.rank else steps, (30, 40))

    spmd(2, body)


def test_late_processes_and_plans_by_turns(spmd):
    """Python goes on where somebody is late; more than 64 plans are kept, some of them for good, alike on all."""

    def body():
        grid = sg.init_grid((-1,))
        shapes = [(4 + k, 9) for k in range(70)]
        cases = [case(grid, "rows to columns", shape) for shape in shapes]
        for turn in range(3):
            for k, (plan, own, there, whole) in enumerate(cases):
                for _ in range(10 if k % 7 == 0 else 1):
                    if (turn + k) % 20 == grid.rank:
                        time.sleep(0.002)
                    # One process brings arrays that compiled code does not take.
                    given = whole[own].copy("F" if grid.rank == 0 and turn == 1 else "C")
                    assert np.array_equal(plan.run(given, grid), whole[there])

    spmd(3, body)


def test_wrong_arrays_are_refused_alike(spmd):
    def body():
        grid = sg.init_grid((-1,))
        plan, own, there, whole = case(grid, "rows to columns", (6, 8))
        bound = plan.bind(grid)
        for k in range(RUNS):
            assert np.array_equal(bound.run(whole[own] + k), whole[there] + k)
            if k % 4 == 3:
                wrong = whole[own].astype("f4") if grid.rank == 1 else whole[own]
                with pytest.raises(sg.DTypeError, match="float32.*rank 1"):
                    bound.run(wrong)
                wrong = np.zeros((3, 3)) if grid.rank == 1 else whole[own]
                with pytest.raises(sg.ShapeError, match="rank 1"):
                    sg.run_plan(plan, wrong, grid)
        other = case(grid, "columns to rows", (6, 8))[0] if grid.rank else plan
        with pytest.raises(sg.MismatchError):
            sg.run_plan(other, whole[case(grid, "columns to rows", (6, 8))[1]] if grid.rank else whole[own], grid)

    spmd(2, body)
