"""The block rule: tables, then its properties for all policies."""

import math
from itertools import accumulate, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spmd_grid.errors import ShardingError
from spmd_grid.grid.blocks import (
    POLICIES,
    block_extent,
    block_interval,
    block_position,
    block_starts,
    check_offsets,
    check_policy,
)

extents = st.integers(0, 40)
several = st.lists(st.integers(1, 5), max_size=3).map(tuple)
policies = st.sampled_from(POLICIES)


def coords_of(sizes):
    return list(product(*map(range, sizes)))


@pytest.mark.parametrize(
    ("extent", "sizes", "blocks", "expected"),
    [
        (7, (2, 3), "ceil", [2, 2, 0, 1, 1, 1]),
        (7, (2, 3), "balanced", [2, 1, 1, 1, 1, 1]),
        (7, (6,), "ceil", [2, 2, 2, 1, 0, 0]),
        (5, (4,), "ceil", [2, 2, 1, 0]),
        (5, (4,), "balanced", [2, 1, 1, 1]),
        (16, (3,), "ceil", [6, 6, 4]),
        (16, (3,), "balanced", [6, 5, 5]),
        (0, (2,), "ceil", [0, 0]),
        (0, (2,), "balanced", [0, 0]),
        (1, (3, 2), "balanced", [1, 0, 0, 0, 0, 0]),
        (9, (), "ceil", [9]),
    ],
)
def test_extents(extent, sizes, blocks, expected):
    assert [block_extent(extent, sizes, coords, blocks) for coords in coords_of(sizes)] == expected


@given(extents, several, policies)
def test_blocks_tile_the_extent_in_order_of_position(extent, sizes, blocks):
    intervals = [block_interval(extent, sizes, coords, blocks) for coords in coords_of(sizes)]
    assert intervals[0][0] == 0 and intervals[-1][1] == extent
    assert all(a[1] == b[0] for a, b in pairwise(intervals))
    assert all(start <= stop for start, stop in intervals)
    assert block_starts(extent, sizes, blocks) == (*[start for start, _ in intervals], extent)


@given(extents, several, several, policies)
def test_nested_is_a_repeated_single_cut(extent, outer, inner, blocks):
    for a, b in product(coords_of(outer), coords_of(inner)):
        start, stop = block_interval(extent, outer, a, blocks)
        low, high = block_interval(stop - start, inner, b, blocks)
        assert block_interval(extent, outer + inner, a + b, blocks) == (start + low, start + high)


@given(extents, st.integers(1, 9))
def test_balanced_is_numpys_array_split(extent, size):
    expected = [len(part) for part in np.array_split(np.arange(extent), size)]
    assert [block_extent(extent, (size,), (m,), "balanced") for m in range(size)] == expected


@given(extents, st.integers(1, 9))
def test_ceil_is_the_formula(extent, size):
    chunk = math.ceil(extent / size)
    for m in range(size):
        assert block_interval(extent, (size,), (m,)) == (min(m * chunk, extent), min((m + 1) * chunk, extent))


@given(several, st.data())
def test_offsets_are_the_blocks_themselves(sizes, data):
    count = math.prod(sizes)
    widths = data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    offsets = check_offsets(list(accumulate(widths, initial=0)), sizes)
    extent = offsets[-1]
    found = [block_extent(extent, sizes, coords, offsets=offsets) for coords in coords_of(sizes)]
    assert found == widths
    for cell in range(extent):
        position = block_position(extent, sizes, cell, offsets=offsets)
        assert offsets[position] <= cell < offsets[position + 1]


@given(extents, several, policies)
def test_policies_are_offsets_in_closed_form(extent, sizes, blocks):
    offsets = check_offsets(block_starts(extent, sizes, blocks), sizes)
    for coords in coords_of(sizes):
        assert block_interval(extent, sizes, coords, blocks) == block_interval(extent, sizes, coords, offsets=offsets)
    for cell in range(extent):
        assert block_position(extent, sizes, cell, blocks) == block_position(extent, sizes, cell, offsets=offsets)


def test_huge_extents_stay_exact():
    assert block_interval(2**62 + 1, (2**20, 2**20), (2**20 - 1, 2**20 - 1), "balanced")[1] == 2**62 + 1


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 4], "has 2 entries; it must have 3"),
        ([0, 4, 8, 12], "has 4 entries; it must have 3"),
        ([1, 4, 6], "begins with 1"),
        ([0, 4, 3], "decreases from 4 to 3 at entry 2"),
        ([0, 4, 8.0], "must be a list of integers"),
        (7, "must be a list of integers"),
    ],
)
def test_refused_offsets(offsets, message):
    with pytest.raises(ShardingError, match=message):
        check_offsets(offsets, (2,))


@pytest.mark.parametrize("blocks", ["floor", None, ["ceil"]])
def test_refused_policy(blocks):
    with pytest.raises(ShardingError, match="must be one of 'ceil', 'balanced'"):
        check_policy(blocks)
