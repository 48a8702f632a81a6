"""Arrays that pass through staging memory in steps, as values: near and far, in the arena and elsewhere."""

from contextlib import contextmanager

import numpy as np
import pytest
from support.ops.distances import distances_of_tests, set_distance

import spmd_grid as sg
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.agreement.quicker_way import TRIED
from spmd_grid.exchange.agreement.relay import RELAYED_FROM, SLOT_BYTES
from spmd_grid.links.sizes import most_folded_whole
from spmd_grid.ops.calls.shape_rules import cut_box

WORDS = SLOT_BYTES // 8
SHAPES = [(RELAYED_FROM // 4 + 1,), (WORDS,), (WORDS + 1,), (4 * WORDS + 5,), (5, 7, 3, 401), (3, WORDS + 7)]
KINDS = "arena", "plain", "mixed", "every other"


def made(grid, values, kind):
    """The values in an array that lies where ``kind`` says."""
    if kind == "mixed":
        kind = ("arena", "plain")[grid.rank % 2]
    if kind == "arena":
        x = grid.allocate(values.shape, values.dtype)
    elif kind == "plain":
        x = np.empty(values.shape, values.dtype)
    else:
        x = np.empty((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)[..., ::2]
    x[...] = values
    return x


@contextmanager
def as_if(grid, far):
    """The meeting of the group, as if its processors were far apart or near, and the relays made in it."""
    with distances_of_tests(grid) as meeting:
        if not isinstance(meeting, MemoryMeeting):
            yield None
            return
        relays, relay = [], meeting.relay
        set_distance(meeting, far, streams=far)
        meeting.relay = lambda *args: (relays.append(1), relay(*args))
        try:
            yield relays
        finally:
            del meeting.relay


def all_operations(shape, dtype, far):
    grid = sg.init_grid((-1,))
    n, me = grid.grid.size, grid.rank
    rng = np.random.default_rng(5)
    with as_if(grid, far) as relays:
        check_all(grid, n, me, rng, shape, dtype)
    assert relays is None or relays


def check_all(grid, n, me, rng, shape, dtype):
    for kind in KINDS:
        parts = (50 * rng.standard_normal((n, *shape))).astype(dtype)
        total, largest = parts[0].copy(), parts.max(0)
        for part in parts[1:]:
            total = total + part
        x, axes = made(grid, parts[me], kind), range(len(shape))
        before = x.copy()
        out = made(grid, np.zeros(shape, dtype), kind)
        assert np.array_equal(sg.all_reduce(x, grid, [0], out=out), total) and np.array_equal(out, total)
        assert np.array_equal(sg.all_reduce(x, grid, [0], "max"), largest)
        reduced = sg.reduce(x, grid, [0], root=[n - 1])
        assert reduced is None if me != n - 1 else np.array_equal(reduced, total)
        for axis in axes:
            mine = cut_box(shape, axis, (n,), me).slices()
            assert np.array_equal(sg.reduce_scatter(x, grid, [0], "sum", axis), total[mine])
            assert np.array_equal(sg.all_gather(x, grid, [0], axis), np.concatenate(parts, axis))
            assert np.array_equal(sg.scatter(x if me == 0 else None, grid, [0], axis, root=[0]), parts[0][mine])
            for other in axes:
                expected = np.concatenate([part[mine] for part in parts], other)
                assert np.array_equal(sg.all_to_all(x, grid, [0], axis, other), expected)
        assert np.array_equal(sg.broadcast(x if me == n - 1 else None, grid, [0], root=[n - 1]), parts[-1])
        assert np.array_equal(sg.shift(x, grid, [0], 0, 1, rotate=True), parts[me - 1])
        assert np.array_equal(x, before)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_relayed(spmd, n, far, shape):
    spmd(n, all_operations, shape, "f8" if len(shape) > 1 else "f4", far)


def try_both_ways(n_bytes):
    """Runs on arrays that can be read, between processors as if far apart: relayed and read by turns, then one way."""
    grid = sg.init_grid((-1,))
    n, me, runs = grid.grid.size, grid.rank, TRIED + 3
    rows, columns = sg.Sharding(grid, [[0], []]), sg.Sharding(grid, [[], [0]])
    width = n_bytes // 8 // n
    plan = sg.plan_reshard(rows, columns, (n * n, width), "f8")
    whole = np.arange(float(n * n * width)).reshape(n * n, width)
    own, there = (layout.shard_slices(whole.shape, (me,)) for layout in (rows, columns))
    x, part = made(grid, whole[0], "arena"), made(grid, whole[own], "arena")
    operations = {
        "all_reduce": lambda k: np.array_equal(sg.all_reduce(x, grid, [0]), (whole[0] + k) * n * (n + 1) / 2),
        "all_gather": lambda k: np.array_equal(
            sg.all_gather(x, grid, [0], 0), np.concatenate([(whole[0] + k) * (i + 1) for i in range(n)])
        ),
        "run_plan": lambda k: np.array_equal(sg.run_plan(plan, part, grid), whole[there] + k),
    }
    with as_if(grid, True) as relays:
        for name, is_right in operations.items():
            before = 0 if relays is None else len(relays)
            for k in range(runs):
                x[...] = (whole[0] + k) * (me + 1)
                part[...] = whole[own] + k
                assert is_right(k), (name, k)
            if relays is not None:
                after = len(relays) - before - TRIED // 2
                assert 0 <= after <= 3, name  # none if all read; relays in compiled calls are not counted


@pytest.mark.parametrize("n", [2, 3])
def test_relayed_or_read_by_trying(spmd, n):
    spmd(n, try_both_ways, n * (9 << 20))


def uneven(far):
    """Blocks of different extents, one of them empty; averages; a dtype that no compiled kernel folds."""
    grid = sg.init_grid((-1,))
    with as_if(grid, far) as relays:
        check_uneven(grid, grid.grid.size, grid.rank)
    assert relays is None or relays


def check_uneven(grid, n, me):
    parts = [np.arange(i * (WORDS + 3) * 3).reshape(-1, 3) + 7 * i for i in range(n)]
    assert np.array_equal(sg.all_gather(parts[me], grid, [0], 0), np.concatenate(parts))
    expected = np.concatenate([part[cut_box(part.shape, 0, (n,), me).slices()] for part in parts])
    assert np.array_equal(sg.all_to_all(parts[me], grid, [0], 0, 0), expected)
    halves = [np.full(3 * WORDS, i + 1, "f2") for i in range(n)]
    assert np.array_equal(sg.all_reduce(halves[me], grid, [0]), sum(halves))
    mean = sg.all_reduce(np.full(3 * WORDS + 1, float(me)), grid, [0], "average")
    assert (mean == sum(range(n)) / n).all()
    rows, columns = sg.Sharding(grid, [[0], []]), sg.Sharding(grid, [[], [0]])
    whole = np.arange(900.0 * 701).reshape(900, 701)
    source, target = (whole[each.shard_slices(whole.shape, grid.coords)] for each in (rows, columns))
    for x in (source.copy(), np.asfortranarray(source), np.repeat(source, 2, 1)[:, ::2]):
        assert np.array_equal(sg.reshard(x, rows, columns, grid, whole.shape), target)
        assert np.array_equal(sg.reshard(target, columns, rows, grid, whole.shape, out=np.zeros_like(x)), source)
    square = np.arange(512.0 * 512).reshape(512, 512)
    given = square[rows.shard_slices(square.shape, grid.coords)].reshape(-1).copy()
    if 512 % n == 0:  # in the array itself
        inplace = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[0]])
        assert np.array_equal(sg.reshard(given, *inplace, grid, (512 * 512,), out=given), given)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("far", [False, True])
def test_uneven(spmd, n, far):
    spmd(n, uneven, far)


def wherever_arrays_lie(far):
    """Compiled runs give right results for large arrays that lie in the arena on all members, some or none."""
    grid = sg.init_grid((-1,))
    n, me, shape = grid.size, grid.rank, (12, 5 * WORDS // 12 + 7)
    everywhere = ["arena"] * n, ["plain"] * n, ["arena", *["plain"] * (n - 1)], ["plain", *["arena"] * (n - 1)]
    cases = {
        "all_reduce": (("sum",), lambda xs: sum(xs)),
        "all_gather": ((1,), lambda xs: np.concatenate(xs, 1)),
        "all_to_all": ((0, 1), lambda xs: np.concatenate([x[cut_box(shape, 0, (n,), me).slices()] for x in xs], 1)),
        "broadcast": (([0],), lambda xs: xs[0]),
        "scatter": ((1, [0]), lambda xs: xs[0][cut_box(shape, 1, (n,), me).slices()]),
        "shift": ((0, 1, True), lambda xs: xs[me - 1]),
    }
    with as_if(grid, far):
        for name, (args, wanted) in cases.items():
            has_array = me == 0 or name not in ("broadcast", "scatter")
            with getattr(sg, name).plan(grid, *((shape, "f8") if has_array else (None, None)), [0], *args) as plan:
                for turn in range(5 * len(everywhere)):
                    parts = [np.full(shape, 10.0 * turn + i) for i in range(n)]
                    for i, part in enumerate(parts):
                        part[turn % 12, i::7] -= i
                    x = made(grid, parts[me], everywhere[turn % len(everywhere)][me]) if has_array else None
                    out = made(grid, np.zeros_like(wanted(parts)), ("arena", "plain")[turn // 3 % 2])
                    assert plan.run(x, out) is out and np.array_equal(out, wanted(parts)), (name, turn)
                meeting = meeting_of(grid.group((0,)))
                assert not isinstance(meeting, MemoryMeeting) or plan._quick._runs, name


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("far", [False, True])
def test_compiled_runs_wherever_arrays_lie(spmd, n, far):
    spmd(n, wherever_arrays_lie, far)


def folds_of_many(far):
    grid = sg.init_grid((-1,))
    n, me = grid.grid.size, grid.rank
    most = most_folded_whole(n) // 8
    with as_if(grid, far) as relays:
        for size in (RELAYED_FROM // 8, RELAYED_FROM // 8 + 1, most, most + 1, WORDS, 4 * WORDS + 5):
            parts = np.random.default_rng(size).standard_normal((n, size))
            total = parts[0].copy()
            for part in parts[1:]:
                total += part
            for kind in KINDS[:3]:
                x, untouched = made(grid, parts[me], kind), np.full(size, 7.0)
                with (
                    sg.all_reduce.plan(grid, x.shape, x.dtype) as everywhere,
                    sg.reduce.plan(grid, x.shape, x.dtype, root=[n - 1]) as at_root,
                ):
                    for _ in range(5):  # the first runs are Python's
                        assert np.array_equal(everywhere.run(x), total)
                        out = untouched.copy()
                        at_root.run(x, out=out)
                        assert np.array_equal(out, total if me == n - 1 else untouched)
    assert relays is None or relays


@pytest.mark.parametrize("n", [4, 6])
@pytest.mark.parametrize("far", [False, True])
def test_folds_of_many_members(spmd, n, far):
    """Whole arrays and slices give the bits of a sum in the group's order; only root's ``out`` is written."""
    spmd(n, folds_of_many, far)
