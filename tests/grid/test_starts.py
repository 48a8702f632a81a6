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
from spmd_grid.grid import derived_starts, starts
from spmd_grid.grid.blocks import block_position, block_starts
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding

EXTENTS = st.lists(st.integers(0, 3), min_size=2, max_size=12)


def runs_of(units):
    """Runs that repeat ``units``."""
    return st.lists(st.tuples(st.integers(1, 5), units), min_size=1, max_size=3)


GROUPS = runs_of(st.integers(0, 3)).map(lambda runs: starts.Starts(0, runs))
NESTED = runs_of(st.integers(0, 3) | runs_of(st.integers(0, 3) | GROUPS).map(lambda runs: starts.Starts(0, runs)))


@pytest.fixture(autouse=True, scope="module")
def all_as_runs():
    """Few blocks too are held as runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starts, "MOST_LISTED", 0)
        yield


def of(extents):
    """The starts of blocks as a tuple and as runs; of extents, or of runs that repeat."""
    if isinstance(extents[0], tuple):
        runs = starts.of_runs(extents)
        return tuple(runs), runs
    listed = (0, *np.cumsum(extents).tolist())
    return listed, starts.compact(listed)


def test_examples():
    assert doctest.testmod(starts).failed == doctest.testmod(derived_starts).failed == 0


@given(EXTENTS | NESTED)
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


@given(EXTENTS | NESTED, st.data())
def test_what_follows_from_them(extents, data):
    listed, runs = of(extents)
    end, blocks = listed[-1], len(listed) - 1
    assert tuple(derived_starts.turned(runs, end)) == tuple(end - each for each in reversed(listed))
    assert tuple(derived_starts.with_end(runs, end + 5)) == (*listed[:-1], end + 5)
    assert tuple(derived_starts.with_start(runs, -3)) == (-3, *listed[1:])
    low, high = sorted(data.draw(st.tuples(st.integers(0, blocks), st.integers(0, blocks))))
    assert derived_starts.changes(runs, low, high) == derived_starts.changes(listed, low, high)
    lengths = np.diff(listed).tolist()
    assert tuple(starts.Starts(listed[low], runs.runs_within(low, high))) == listed[low : high + 1]
    assert runs.extents() == {each: lengths.count(each) for each in lengths}
    size = data.draw(st.integers(1, 5))
    groups = [lengths[low + i * size : low + (i + 1) * size] for i in range((high - low) // size)]
    ends = [0, *derived_starts.changes_of_groups(runs, low, low + len(groups) * size, size), len(groups)]
    assert all(groups[i] == groups[a] for a, b in pairwise(ends) for i in range(a, b))


@given(EXTENTS | NESTED, st.data())
def test_equal_integers_of_other_runs(extents, data):
    """However they are made, and also where one differs."""
    listed, runs = of(extents)
    flat = starts.compact(listed)
    assert runs == flat and hash(runs) == hash(flat) and {runs: 1}[flat]
    at, by = data.draw(st.integers(1, len(listed) - 1)), data.draw(st.integers(1, 3))
    assert runs != starts.compact([*listed[:at], *[each + by for each in listed[at:]]])
    assert runs != starts.compact([*listed[:at], listed[at] + by, *listed[at + 1 :]])


@given(NESTED, st.data())
def test_what_is_linear_is_largest_at_few_blocks(extents, data):
    """For any other starts, any weights, and where only stretches of some extents count."""
    listed, runs = of(extents)
    blocks, other = len(listed) - 1, of(data.draw(NESTED))[1]
    times = -(-blocks // (len(other) - 1))
    other = starts.Starts(0, starts.Starts(0, [(times, other)]).runs_within(0, blocks))
    parts, theirs = starts.linear_parts(runs, other), tuple(other)
    assert set(parts) <= set(range(blocks))
    weights = data.draw(st.lists(st.integers(-2, 2), min_size=4, max_size=4))

    def value(i):
        return sum(w * each for w, each in zip(weights, (listed[i], listed[i + 1], theirs[i], theirs[i + 1])))

    for least in (0, 1, 2):
        counted = [i for i in range(blocks) if theirs[i + 1] - theirs[i] >= least]
        assert {value(i) for i in set(counted) & set(parts)} >= {max(map(value, counted), default=None)} - {None}
    assert starts.linear_parts(listed, other) == list(range(blocks))


@given(EXTENTS | NESTED, st.integers(-9, 30), st.integers(-9, 30), st.sampled_from([-3, -2, -1, 1, 2, 3]))
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
    assert runs == starts.compact(listed) and hash(runs) == hash(starts.compact(listed))
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
    assert isinstance(runs, starts.Starts) and len(runs) == (1 << 20) + 1 and runs[-1] == (1 << 24) + 5
    counts = [count for count, _ in runs.runs], [count for count, _ in runs.runs[0][1].runs]
    assert counts == ([1023, 960, 1, 63], [963, 1, 60])
