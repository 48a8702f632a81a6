"""Operations on large arrays, wherever these and their results lie: in the node's memory, elsewhere, with strides.

Under MPI, arrays in the node's memory are read in place, others of up to `COPIED_BYTES` through a copy, larger ones by
messages; one member whose array cannot be read sends all of them by messages.
"""

from itertools import product

import numpy as np
import pytest
from support.ops.arrays_anywhere import KINDS, check_all
from support.ops.distances import distances_of_tests, set_distance

import spmd_grid as sg
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.agreement.memory_meeting import MemoryMeeting
from spmd_grid.exchange.agreement.node_meeting import COPIED_BYTES

SHAPES = [(4, 6), (40, 33), (150, 151), (301, 700)]  # with the line, with the line for some, copied, by messages


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
    with distances_of_tests(grid) as meeting:
        set_distance(meeting, far)
        check_all(grid, n, me, parts, "arena", "arena")
        x = grid.allocate((1000,), "f8")
        x[...] = me
        lent = meeting.swap(x)
        if isinstance(meeting, MemoryMeeting):
            assert bool(lent.lends) != far
            assert meeting.better_relayed(1 << 24, True, 1 << 22, "first run") == far
        meeting.depart(lent)


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
