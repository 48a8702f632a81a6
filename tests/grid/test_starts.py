"""Starts held as runs are what tuples of the same integers are; rules in closed form, and what follows from them."""

import doctest
import pickle
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spmd_grid.compute.indexing.index import as_selection
from spmd_grid.errors import ShardingError
from spmd_grid.grid import starts
from spmd_grid.grid.blocks import block_position, block_starts
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding

EXTENTS = st.lists(st.integers(0, 3), min_size=2, max_size=12)


@pytest.fixture(autouse=True, scope="module")
def all_as_runs():
    """Few blocks too are held as runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starts, "MOST_LISTED", 0)
        yield


def of(extents):
    listed = (0, *np.cumsum(extents).tolist())
    return listed, starts.compact(listed)


def test_examples():
    assert doctest.testmod(starts).failed == 0


@given(EXTENTS)
def test_they_are_a_sequence(extents):
    listed, runs = of(extents)
    assert isinstance(runs, starts.Starts)
    assert (tuple(runs), len(runs), repr(runs)) == (listed, len(listed), repr(listed))
    assert runs == listed and listed == runs and runs == starts.compact(list(listed)) and runs != (*listed, 0)
    assert hash(runs) == hash(starts.compact(listed)) == hash(pickle.loads(pickle.dumps(deepcopy(runs))))
    assert [runs[i] for i in range(-len(listed), len(listed))] == [*listed, *listed]
    assert runs[1:-1] == listed[1:-1] and runs[::-2] == listed[::-2]
    assert np.array_equal(np.searchsorted([1, 4], runs), np.searchsorted([1, 4], listed))
    for i in (len(listed), -len(listed) - 1):
        with pytest.raises(IndexError, match=f"offset {i if i > 0 else -1} of"):
            runs[i]


@given(EXTENTS, st.data())
def test_what_follows_from_them(extents, data):
    listed, runs = of(extents)
    end = listed[-1]
    assert tuple(starts.turned(runs, end)) == tuple(end - each for each in reversed(listed))
    assert tuple(starts.with_end(runs, end + 5)) == (*listed[:-1], end + 5)
    assert tuple(starts.with_start(runs, -3)) == (-3, *listed[1:])
    low, high = sorted(data.draw(st.tuples(st.integers(0, len(extents)), st.integers(0, len(extents)))))
    assert starts.changes(runs, low, high) == starts.changes(listed, low, high)
    other = of(data.draw(st.lists(st.integers(0, 3), min_size=len(extents), max_size=len(extents))))[0]
    parts = starts.linear_parts(runs, starts.compact(other))
    assert {0, len(extents) - 1} <= set(parts)
    for a, b in pairwise(parts):  # between two of them all extents are equal, but for one of the two
        for each in (listed, other):
            assert len({each[i + 1] - each[i] for i in range(a + 1, b)}) <= 1


@given(EXTENTS, st.integers(-9, 30), st.integers(-9, 30), st.sampled_from([-3, -2, -1, 1, 2, 3]))
@settings(max_examples=100)
def test_blocks_of_slices(extents, start, stop, step):
    listed, runs = of(extents)
    if listed[-1]:
        selection = as_selection(slice(start, stop, step), listed[-1:])
        numbers = [i for i, cell in enumerate(sorted(range(listed[-1])[start:stop:step]))]
        cells = sorted(range(listed[-1])[start:stop:step])
        wanted = [sum(cell < each for cell in cells) for each in listed[:-1]]
        assert tuple(selection.held_starts(0, runs)) == (*wanted, len(numbers))
        assert tuple(selection.held_starts(0, listed)) == (*wanted, len(numbers))


@given(st.integers(0, 60), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.sampled_from(["ceil", "balanced"]))
def test_block_rules_in_closed_form(extent, sizes, blocks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starts, "MOST_LISTED", 999)
        listed = block_starts(extent, sizes, blocks)
    runs = block_starts(extent, sizes, blocks)
    assert isinstance(listed, tuple) and isinstance(runs, starts.Starts) and runs == listed
    for cell in range(extent):
        assert block_position(extent, sizes, cell, offsets=runs) == block_position(extent, sizes, cell, blocks)


def test_shardings_with_them():
    grid = Grid((5,))
    one, other = (Sharding(grid, [[0]], sharded_dims_offsets=[[0, 2, 4, 6, 6, 7]], partial_axes=()) for _ in range(2))
    assert one == other and hash(one) == hash(other) and one.sharded_dims_offsets == ((0, 2, 4, 6, 6, 7),)
    assert isinstance(one.offsets_of(0), starts.Starts)
    assert Sharding(grid, [[0]], sharded_dims_offsets=one.sharded_dims_offsets) == one
    assert eval(repr(one), {"Sharding": Sharding, "Grid": Grid}) == one
    assert str(one) == "[[0]] on 5, offsets [[0, 2, 4, ..., 7]]"
    assert [one.core_slices((7,), (i,))[0] for i in (0, 3)] == [slice(0, 2), slice(6, 6)]
    with pytest.raises(ShardingError, match="decreases from 4 to 3 at entry 3"):
        Sharding(grid, [[0]], sharded_dims_offsets=[[0, 2, 4, 3, 6, 7]])
    with pytest.raises(ShardingError, match="it must have 6"):
        Sharding(grid, [[0]], sharded_dims_offsets=[starts.Starts(0, [(4, 2)])])


def test_a_million_blocks_are_cut_at_once():
    runs = block_starts((1 << 24) + 5, (1 << 10, 1 << 10))
    assert isinstance(runs, starts.Starts) and len(runs) == (1 << 20) + 1 and len(runs.runs) < 9000
    assert runs[-1] == (1 << 24) + 5
