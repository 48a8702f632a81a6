"""Arrays in the arena that compiled runs relay or read where they lie, at all distances, among other runs."""

import numpy as np
import pytest
from support.ops.compiled_runs import in_loop, in_loop_holding
from support.ops.distances import distances_of_tests, set_distance

import spmd_grid as sg
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.agreement.quicker_way import TRIED, WATCHED, QuickerWay
from spmd_grid.ops.movement.member_arrays import DirectCopies

NEAR, LATE, FAR = (False, False), (False, True), (True, False)  # whether members are far apart, and words slow
SHAPES = {"small": (5, 801), "middle": (70, 801), "large": (9, 12345)}  # of doubles: 31 KiB, 438 KiB, 868 KiB
RUNS = TRIED + WATCHED + 8


def made(grid, shape, kind):
    if kind == "arena":
        return grid.allocate(shape, "f8")
    return np.empty(shape) if kind == "plain" else grid.allocate((2 * shape[0], *shape[1:]), "f8")[::2]


def check(grid, shape, distances, kinds):
    """Operations in each of which not all members have something to give, or to get; the arrays' kinds by turns."""
    n, me = grid.size, grid.rank
    cells, rows = np.arange(float(np.prod(shape))).reshape(shape), -(-shape[0] // n)
    mine = slice(min(rows * me, shape[0]), min(rows * (me + 1), shape[0]))
    xs = {kind: made(grid, shape, kind) for kind in ("arena", "plain", "strided")}
    given = [made(grid, shape, "arena") for _ in range(2)]
    with (
        distances_of_tests(grid) as meeting,
        sg.shift.plan(grid, shape, "f8", [0], 0, 1, True) as to_next,
        sg.all_gather.plan(grid, shape, "f8", [0], 0) as to_all,
        sg.broadcast.plan(grid, shape, "f8", [0], root=[n - 1]) as from_last,
        sg.scatter.plan(grid, shape, "f8", [0], 0, root=[0]) as in_parts,
        sg.gather.plan(grid, shape, "f8", [0], 0, root=[0]) as to_first,
    ):
        whole, part = np.empty((n * shape[0], *shape[1:])), np.empty((mine.stop - mine.start, *shape[1:]))
        for run in range(RUNS):
            set_distance(meeting, *distances[run % len(distances)])
            x, out = xs[kinds(run, me)], given[run % 2]
            x[...] = cells + 10 * run + me
            assert np.array_equal(to_next.run(x, out), cells + 10 * run + (me - 1) % n), run
            to_all.run(x, whole)
            assert all(np.array_equal(each, cells + 10 * run + i) for i, each in enumerate(whole.reshape(n, *shape)))
            assert np.array_equal(from_last.run(x if me == n - 1 else None, out), cells + 10 * run + n - 1), run
            assert np.array_equal(in_parts.run(x if me == 0 else None, part), cells[mine] + 10 * run), run
            found = to_first.run(x, whole if me == 0 else None)
            assert me or all(
                np.array_equal(each, cells + 10 * run + i) for i, each in enumerate(found.reshape(n, *shape))
            )
            assert np.array_equal(sg.shift(x, grid, [0], 0, 1, rotate=True), cells + 10 * run + (me - 1) % n), run


ARRAYS = {
    "arena": lambda run, me: "arena",
    "now and then another kind": lambda run, me: "arena" if run % 7 else ("plain", "strided")[run // 7 % 2],
    "one member has another kind": lambda run, me: "arena" if run % 5 or me else ("plain", "strided")[run // 5 % 2],
}


def body(shape, distances, kinds):
    check(sg.init_grid((-1,)), shape, distances, ARRAYS[kinds])


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("kinds", ARRAYS)
@pytest.mark.parametrize("distances", [[NEAR], [LATE], [NEAR, LATE, LATE, FAR, NEAR]], ids=["near", "late", "changing"])
@pytest.mark.parametrize("shape", SHAPES)
def test_at_all_distances(spmd, n, shape, distances, kinds):
    spmd(n, body, SHAPES[shape], distances, kinds)


def any_way(monkeypatch, run):
    """Members whose trials choose in turns, in loops; whether Python has made most of the copies."""
    grid, turns, copies, copy = sg.init_grid((-1,)), iter(range(100)), [], DirectCopies.run
    monkeypatch.setattr(QuickerWay, "_choose", lambda self, most, stays: (self._forget_times(), next(turns) % 2)[1])
    monkeypatch.setattr(DirectCopies, "run", lambda *args: (copies.append(1), copy(*args))[1])
    n, me, steps, made_by_python = grid.size, grid.rank, 40, []
    with distances_of_tests(grid) as meeting:
        for distance, size in ((NEAR, "middle"), (LATE, "middle"), (LATE, "large")):
            set_distance(meeting, *distance)
            shape = SHAPES[size]
            cells = np.random.default_rng(4).standard_normal((steps, n, *shape))
            with sg.shift.plan(grid, shape, "f8", [0], 0, 1, True) as plan:
                x, out, results = (*(made(grid, shape, "arena") for _ in range(2)), np.empty((steps, *shape)))
                for _ in range(3):
                    copies.clear()
                    run(plan, cells[:, me], x, out, results)
                    assert np.array_equal(results, cells[:, me - 1])
            made_by_python.append(len(copies))
    if isinstance(meeting, MemoryMeeting) and meeting.comm.times_well:
        assert max(made_by_python) < steps // 2


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("run", [in_loop, in_loop_holding])
def test_loops(spmd, monkeypatch, n, run):
    spmd(n, any_way, monkeypatch, run)
