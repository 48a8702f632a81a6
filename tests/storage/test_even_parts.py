"""Rounds of equal parts at equal distances, seen as boxes, against the rows that a round has."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spmd_grid as sg
from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.storage.ranges.blocks import Blocks
from spmd_grid.storage.ranges.deal import deal, take_lead
from spmd_grid.storage.ranges.even import even_parts

SPLITS = [[[0]], [[], [0]], [[1], [0]], [[], [], [0, 1]], [[0], [], [1]]]


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(2, 40), st.integers(1, 3)),
    split=st.sampled_from(SPLITS),
    most_bytes=st.integers(1, 12),
    per_round=st.integers(1, 3),
    data=st.data(),
)
def test_cells_of_parts_are_those_of_the_rows(shape, split, most_bytes, per_round, data):
    sizes = data.draw(st.sampled_from([(2, 1), (1, 2), (2, 2), (3, 1)]))
    layout = Layout(sg.Sharding(Grid(sizes), split, blocks="balanced"), shape)
    n, region, blocks = layout.grid.size, Box.from_shape(shape), Blocks(shape, 1, most_bytes)
    stage = per_round * blocks.rows * blocks.row_bytes
    whole, line = np.arange(np.prod(shape)).reshape(shape), Grid((n,))
    for each in deal(blocks, region, layout, range(n), 0, stage, spread=False).rounds:
        even = even_parts(each, layout)
        if even is None:
            continue
        rows = [i for start, stop in each.rows for i in range(start, stop)]
        lead = tuple([slice(i, i + 1) for i in each.lead])
        stretch = whole[(*lead, rows)].reshape(even.shape(each.shape(shape)))
        cut = even.sharding_of_devices(layout, each.stretch_sharding(layout))
        read = even.sharding_of_processes(line)
        for rank, coords in enumerate(np.ndindex(*sizes)):
            box = layout.core_box(coords)
            core = whole[box.slices()].copy()
            found = even.of_core(core[take_lead(box, each)], box.starts[each.dim], box.stops[each.dim])
            wanted = stretch[cut.core_slices(stretch.shape, coords)]
            np.testing.assert_array_equal(found, wanted)
            assert not found.size or np.shares_memory(found, core)
            before = each.block_sharding(line).core_slices(each.shape(shape), (rank,))
            mine = even.of_process(whole[(*lead, rows)].reshape(each.shape(shape))[before])
            np.testing.assert_array_equal(mine, stretch[read.core_slices(stretch.shape, (rank,))])


@pytest.mark.parametrize(
    ("n_rows", "split", "wanted"),
    [(16, [[], [0]], [2, 2, 2, 2]), (15, [[], [0]], [2, 2, 2, 0]), (13, [[], [0]], [2, 2, 0, 0]), (16, [[0]], [])],
)
def test_rounds_that_have_equal_parts(n_rows, split, wanted):
    layout = Layout(sg.Sharding(Grid((2,)), split), (n_rows, 4))
    blocks = Blocks((n_rows, 4), 1, 8)
    dealt = deal(blocks, Box.from_shape((n_rows, 4)), layout, range(2), 0, 8, spread=False)
    found = [even_parts(each, layout) for each in dealt.rounds]
    assert [0 if each is None else each.count for each in found] == wanted
