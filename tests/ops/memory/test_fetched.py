"""Large arrays outside the node's memory, which members have the system copy: as values, and where it refuses."""

import os
from functools import partial

import numpy as np
import pytest
from support.ops.compiled_runs import in_loop, in_loop_holding
from support.ops.distances import distances_of_tests, set_distance
from support.ops.fetching import in_meeting

import spmd_grid as sg
from spmd_grid.exchange.agreement import memory_meeting
from spmd_grid.exchange.agreement.quicker_way import IN_A_ROW, TRIED, QuickerWay
from spmd_grid.exchange.transfer import memory_reads
from spmd_grid.exchange.transfer.memory_reads import _row as row_of
from spmd_grid.ops.calls.shape_rules import cut_box
from spmd_grid.ops.movement import fetched_copies
from spmd_grid.transport.other_memory import calls_for, is_word_at

SHAPE = (66, 2051)  # of doubles
STEPS = 24
KINDS = "plain", "one in the arena", "every other row"


def made(grid, values, kind):
    if kind == "one in the arena" and grid.rank == 0:
        x = grid.allocate(values.shape, values.dtype)
    elif kind == "every other row":
        x = np.empty((2 * len(values), *values.shape[1:]), values.dtype)[::2]
    else:
        x = np.empty(values.shape, values.dtype)
    x[...] = values
    return x


def check_all(grid, runs):
    n, me = grid.grid.size, grid.rank
    rng = np.random.default_rng(8)
    for kind in KINDS:
        out = {}
        for run in range(runs):
            parts = rng.standard_normal((n, *SHAPE))
            x = made(grid, parts[me], kind)
            rows, columns = (cut_box(SHAPE, axis, (n,), me).slices() for axis in (0, 1))
            expected = {
                "all_gather": np.concatenate(parts),
                "all_to_all": np.concatenate([part[rows] for part in parts], 1),
                "columns": np.concatenate([part[columns] for part in parts]),
                "scatter": parts[-1][rows],
                "broadcast": parts[0],
                "shift": parts[me - 1],
            }
            calls = {
                "all_gather": partial(sg.all_gather, x, grid, [0], 0),
                "all_to_all": partial(sg.all_to_all, x, grid, [0], 0, 1),
                "columns": partial(sg.all_to_all, x, grid, [0], 1, 0),
                "scatter": partial(sg.scatter, x, grid, [0], 0, root=[n - 1]),
                "broadcast": partial(sg.broadcast, x if me == 0 else None, grid, [0], root=[0]),
                "shift": partial(sg.shift, x, grid, [0], 0, 1, rotate=True),
            }
            for name, call in calls.items():
                if run == 0:
                    out[name] = made(grid, np.zeros(expected[name].shape), kind)
                assert np.array_equal(call(out=out[name]), expected[name]), (kind, name, run)
            whole = sg.gather(x, grid, [0], 0, root=[n - 1])
            assert whole is None if me != n - 1 else np.array_equal(whole, expected["all_gather"])
            assert np.array_equal(x, parts[me])


def fetches_all(monkeypatch):
    copies, fetches = in_meeting(check_all, monkeypatch, 2 * IN_A_ROW)
    assert bool(copies) == bool(fetches)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_fetched(spmd, monkeypatch, n):
    spmd(n, fetches_all, monkeypatch)


def check_uneven(grid):
    """Blocks of different extents, a small one and an empty one among them: always fetched, once others are tried."""
    n, me = grid.grid.size, grid.rank
    for extents in (
        [9000 * (i + 2) for i in range(n)],
        [40000 * i for i in range(n)],
        [20 + 30000 * i for i in range(n)],
    ):
        for run in range(4):
            parts = [np.arange(extent) + 7.0 * i + run for i, extent in enumerate(extents)]
            assert np.array_equal(sg.all_gather(parts[me], grid, [0], 0), np.concatenate(parts))


def fetches_uneven(monkeypatch):
    monkeypatch.setattr(QuickerWay, "begin", lambda self, most, stays=True: 1)
    copies, fetches = in_meeting(check_uneven, monkeypatch)
    assert bool(copies) == bool(fetches)


@pytest.mark.parametrize("n", [2, 3])
def test_uneven_blocks(spmd, monkeypatch, n):
    spmd(n, fetches_uneven, monkeypatch)


def check_compiled(grid, run):
    """Plain calls, plans and loops of arrays that lie elsewhere each time, and now and then in the arena."""
    n, me = grid.grid.size, grid.rank
    steps = np.random.default_rng(9).standard_normal((STEPS, n, *SHAPE))
    xs = [made(grid, steps[0, me], "plain") for _ in range(3)]
    results = np.empty((STEPS, *SHAPE))
    with sg.shift.plan(grid, SHAPE, "f8", [0], 0, 1, True) as plan:
        for number in range(2 * STEPS):
            x, step = xs[number % 3], steps[number % STEPS]
            if number % 16 == 11:
                x = made(grid, step[me], "one in the arena")
            x[...] = step[me]
            whole, part = np.empty((n * SHAPE[0], SHAPE[1])), np.empty(SHAPE)
            assert np.array_equal(sg.all_gather(x, grid, [0], 0, out=whole), np.concatenate(step)), number
            assert np.array_equal(plan.run(x, part), step[me - 1]), number
        for _ in range(2):
            run(plan, steps[:, me], xs[0], xs[1], results)
            assert np.array_equal(results, steps[:, me - 1])


def compiled_runs(monkeypatch, run, refuses):
    """Runs that are all fetched, between Python's few by compiled code; ``refuses``: one member's tables are wrong.

    Then Python makes its calls again, by the numbers from which the tables were made.
    """
    monkeypatch.setattr(QuickerWay, "_choose", lambda self, most, stays: (self._forget_times(), 1)[1])
    monkeypatch.setattr(QuickerWay, "_has_changed", lambda self, most, way: False)
    if refuses and os.environ.get("PMI_RANK", "0") == "0":
        monkeypatch.setattr(memory_reads, "_row", lambda call, source: [1 << 22, *row_of(call, source)[1:]])
    copies, fetches = in_meeting(check_compiled, monkeypatch, run)
    simulated = sg.init_grid((-1,)).group((0,)).shares_objects
    if fetches and not refuses and not simulated:
        # Python makes most of the others where processes share a core: compiled code waits for long in loops alone.
        assert TRIED // 2 < copies < 4 * STEPS + STEPS // 2


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("refuses", [False, True])
def test_compiled_runs(spmd, monkeypatch, n, refuses):
    for run in (in_loop, in_loop_holding):
        spmd(n, compiled_runs, monkeypatch, run, refuses)


def where_words_are_slow(monkeypatch):
    """Arrays that are packed elsewhere: tried where words are slow, until they are quick again."""
    runs = []

    def check(grid):
        parts = np.arange(2.0 * 90000 * grid.size).reshape(grid.size, -1)
        monkeypatch.setattr(memory_meeting, "_PACKED", 1 << 24)
        with distances_of_tests(grid) as meeting:
            for late in (True, False):
                set_distance(meeting, False, late)
                for run in range(TRIED):
                    assert np.array_equal(sg.all_gather(parts[grid.rank] + run, grid, [0], 0), parts.reshape(-1) + run)
                runs.append(late)

    copies, fetches = in_meeting(check, monkeypatch)
    assert runs == [True, False] and copies == (TRIED // 2 if fetches else 0)


@pytest.mark.parametrize("n", [2, 3])
def test_smaller_arrays_are_tried_where_words_are_slow(spmd, monkeypatch, n):
    spmd(n, where_words_are_slow, monkeypatch)


def one_forgets(monkeypatch):
    """A member that has passed many shapes forgets the first one, and resolves its call anew, alone."""
    monkeypatch.setattr(fetched_copies, "_LEAST_RUN", 1)

    def check(grid):
        for k in [*range(50), 0]:
            rows = [10000 + k * (rank == 1) for rank in range(grid.size)]
            found = sg.all_gather(np.full(rows[grid.rank], float(grid.rank)), grid, [0], 0)
            assert np.array_equal(found, np.repeat(np.arange(float(grid.size)), rows))

    in_meeting(check, monkeypatch)


@pytest.mark.parametrize("n", [2, 3])
def test_a_call_that_one_member_resolves_anew(spmd, monkeypatch, n):
    spmd(n, one_forgets, monkeypatch)


def refused(monkeypatch):
    """One member that may not copy from the others' memory: all members relay."""
    if os.environ.get("PMI_RANK", "0") == "0":
        monkeypatch.setattr(memory_meeting, "is_word_at", lambda *_: False)
    copies, fetches = in_meeting(check_all, monkeypatch, 2)
    assert not copies and not fetches


@pytest.mark.parametrize("n", [2, 3])
def test_refused_to_one(spmd, monkeypatch, n):
    spmd(n, refused, monkeypatch)


def test_a_process_that_is_not_there():
    word = np.array([77])
    assert not is_word_at(1 << 22, word.ctypes.data, 77)
    with pytest.raises(sg.TransportError, match="does not copy from the memory of process 4194304"):
        calls_for(1 << 22, np.array([[word.ctypes.data, word.ctypes.data, 8]]))[0].make()
