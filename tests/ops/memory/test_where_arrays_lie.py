"""Operations on large arrays, wherever these and their results lie: in the node's memory, elsewhere, with strides.

Under MPI, arrays in the node's memory are read in place, others of up to `COPIED_BYTES` through a copy, larger ones by
messages; one member whose array cannot be read sends all of them by messages.
"""

from itertools import product

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.memory_meeting import COPIED_BYTES, MemoryMeeting
from spmd_grid.ops.calls.shape_rules import cut_box

SHAPES = [(4, 6), (40, 33), (150, 151), (301, 700)]  # with the line, with the line for some, copied, by messages
KINDS = ["arena", "plain", "every other column", "every other column of the arena", "backwards"]


def placed(grid, shape, kind, dtype="f8"):
    """An empty array of ``shape`` that lies as ``kind`` says."""
    wide = shape[0], 2 * shape[1]
    if kind == "arena":
        return grid.allocate(shape, dtype)
    if kind == "plain":
        return np.empty(shape, dtype)
    if kind == "every other column":
        return np.empty(wide, dtype)[:, ::2]
    if kind == "backwards":
        return np.empty(shape, dtype)[::-1]
    return grid.allocate(wide, dtype)[:, ::2]


def folded(parts):
    total = parts[0].copy()
    for part in parts[1:]:
        total = total + part
    return total


def check_all(grid, n, me, parts, kind, out_kind):
    def out(shape):
        return None if out_kind is None else placed(grid, shape, out_kind)

    def check(result, expected):
        assert np.array_equal(result, expected), (kind, out_kind, parts[0].shape)

    shape, total = parts[0].shape, folded(parts)
    x = placed(grid, shape, kind if me != 0 or kind != "mixed" else "plain")
    x[...] = parts[me]
    check(sg.all_reduce(x, grid, [0], "sum", out=out(shape)), total)
    for axis in (0, 1):
        whole = np.concatenate(list(parts), axis)
        check(sg.all_gather(x, grid, [0], axis, out=out(whole.shape)), whole)
        block = cut_box(shape, axis, (n,), me)
        check(sg.reduce_scatter(x, grid, [0], "sum", axis, out=out(block.shape)), total[block.slices()])
        pieces = np.concatenate([part[block.slices()] for part in parts], 1 - axis)
        check(sg.all_to_all(x, grid, [0], axis, 1 - axis, out=out(pieces.shape)), pieces)
        check(sg.scatter(x, grid, [0], axis, [n - 1], out=out(block.shape)), parts[n - 1][block.slices()])
    for root in {0, n - 1}:
        results = sg.reduce(x, grid, [0], "sum", [root], out=out(shape)), sg.gather(x, grid, [0], 0, [root])
        for result, expected in zip(results, (total, np.concatenate(list(parts), 0)), strict=True):
            assert (result is None) == (me != root)
            if me == root:
                check(result, expected)
    check(sg.broadcast(x, grid, [0], [n - 1], out=out(shape)), parts[n - 1])
    check(sg.shift(x, grid, [0], 0, 1, rotate=True, out=out(shape)), parts[(me - 1) % n])
    check(x, parts[me])


def body(shape):
    grid = sg.init_grid((-1,))
    n, me = grid.grid.size, grid.rank
    rng = np.random.default_rng(3)
    for kind, out_kind in product([*KINDS, "mixed"], [None, "arena", "plain", "every other column"]):
        check_all(grid, n, me, rng.standard_normal((n, *shape)), kind, out_kind)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_everywhere(spmd, n, shape):
    spmd(n, body, shape)


def as_if_far(shape, far):
    grid = sg.init_grid((-1,))
    n, me = grid.grid.size, grid.rank
    parts = np.random.default_rng(4).standard_normal((n, *shape))
    sg.all_reduce(np.ones(1), grid, [0])
    meeting = meeting_of(grid.group((0,)))
    meeting.is_far, meeting.ask_distance = far, lambda: None  # it asks anew from time to time
    check_all(grid, n, me, parts, "arena", "arena")
    x = grid.allocate(shape, "f8")
    x[...] = me
    lent = meeting.swap(x)
    if isinstance(meeting, MemoryMeeting):
        assert bool(lent.lends) != far
    meeting.depart(lent)
    del meeting.ask_distance


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("far", [False, True])
def test_copied_where_processors_are_far_apart(spmd, n, far):
    spmd(n, as_if_far, (150, 151), far)


def agrees_on_distance():
    grid = sg.init_grid((-1,))
    sg.all_reduce(np.ones(1), grid, [0])
    meeting = meeting_of(grid.group((0,)))
    if isinstance(meeting, MemoryMeeting):
        meeting.ask_distance()
    found = meeting.is_far
    assert all(sg.all_gather(np.array([found]), grid, [0], 0) == found)
    return found


def test_distance_is_the_same_for_all(spmd):
    assert len(set(spmd(3, agrees_on_distance))) == 1


def many_dims():
    """More strides than a place can tell: read through a copy."""
    grid = sg.init_grid((-1,))
    shape = (2,) * 15
    x = grid.allocate((*shape[:-1], 4), "f4")[..., ::2]
    x[...] = grid.rank
    return [sg.all_gather(x, grid, [0], 14)[(0,) * 14].tolist(), sg.all_reduce(x, grid, [0]).ravel()[:2].tolist()]


def test_many_dimensions(spmd):
    assert spmd(2, many_dims)[1] == [[0, 0, 1, 1], [1, 1]]


def many_times(dtype):
    """Results are made, used and dropped in turns, while others may still read what lay there before."""
    grid = sg.init_grid((-1,))
    n, me = grid.grid.size, grid.rank
    for i in range(60):
        size = (3, 700, 5000, COPIED_BYTES // 8 + 5)[i % 4]
        x = np.full(size, me + i, dtype)
        y = sg.shift(sg.shift(x, grid, [0], 0, 1, rotate=True), grid, [0], 0, 1, rotate=True)
        z = sg.all_reduce(y, grid, [0])
        x[:] = y[:] = -1
        assert (z == sum(range(n)) + n * i).all(), (i, z)


@pytest.mark.parametrize("dtype", ["f8", "i4"])
def test_results_in_turns(spmd, dtype):
    spmd(3, many_times, dtype)
