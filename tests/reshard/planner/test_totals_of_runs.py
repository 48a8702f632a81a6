"""Totals where blocks are held as runs that repeat, against sums over each device: cuts that nest, slices, halos."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spmd_grid.compute.indexing.index import as_selection
from spmd_grid.compute.indexing.shardings import held_sharding, result_sharding
from spmd_grid.compute.splits import block_starts
from spmd_grid.grid import starts
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.geometry.cuts import cuts_of
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.volume.descent import Descent
from spmd_grid.reshard.volume.totals import exchange_totals

GRIDS = st.sampled_from([(6,), (2, 3), (3, 4), (5, 2), (2, 2, 3), (8, 3), (12,)])


@pytest.fixture(autouse=True, scope="module")
def all_as_runs():
    """Few blocks too are held as runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starts, "MOST_LISTED", 0)
        yield


@st.composite
def moves(draw):
    """Moves that slices need: from the selected cells where they lie, to blocks of the rule or of another slice."""
    grid = Grid(draw(GRIDS))
    axes = draw(st.permutations(range(len(grid.shape))))
    extent, blocks = draw(st.integers(1, 90)), draw(st.sampled_from(["ceil", "balanced"]))
    sharding, shape = Sharding(grid, [axes], blocks=blocks), (extent,)
    for _ in range(draw(st.integers(1, 2))):
        start, stop, step = draw(st.integers(0, 5)), draw(st.integers(-5, -1)), draw(st.integers(1, 4))
        selection = as_selection(slice(start, stop, step), shape)
        held, sharding = (f(sharding, shape, selection) for f in (held_sharding, result_sharding))
        shape = selection.counts
        sharding = draw(st.sampled_from([held, sharding, Sharding(grid, [axes], blocks=blocks)]))
    wanted = Sharding(grid, [draw(st.sampled_from([axes, axes, axes, axes[::-1], axes[:1]]))], blocks=blocks)
    low, high = draw(st.tuples(*[st.sampled_from([0, 0, 1, 2, 7, 80])] * 2))
    offsets = [block_starts(wanted, 0, shape[0])] if draw(st.booleans()) else None
    wanted = Sharding(grid, wanted.split_axes, blocks=blocks, sharded_dims_offsets=offsets, halo_sizes=[low, high])
    before, after = Layout(held, shape), Layout(wanted, shape)
    return draw(st.sampled_from([Redistribution(before, after, 1), Redistribution(before, Layout(sharding, shape), 1)]))


@settings(max_examples=300)
@given(moves())
def test_totals_against_each_device(move):
    received, sent = (
        [sum(piece.box.size for piece in of(layout.grid.multi_index(i))) for i in range(layout.grid.size)]
        for of, layout in ((move.receives, move.target), (move.sends, move.source))
    )
    found = exchange_totals(move)
    assert found[:2] == (sum(received), max(received))
    assert found.most_sent == max(sent) if found.exact else found.most_sent >= max(sent)


@settings(max_examples=200)
@given(moves(), st.integers(-3, 99), st.integers(-3, 99))
def test_extents_and_counts_against_each_part(move, low, high):
    for layout in (move.source, move.target):
        (cut,), (core,) = cuts_of(layout, halos=True), cuts_of(layout)
        coords = [layout.grid.multi_index(device) for device in range(layout.grid.size)]
        parts = {tuple([c[axis] for axis in cut.axes]) for c in coords}
        windows = sorted(b - a for a, b in map(cut.window, parts))
        assert sorted(cells for cells, n in Descent(cut).extents() for _ in range(n)) == windows
        cells = [range(max(a, low), min(b, high)) for a, b in map(core.interval, parts)]
        assert Descent(core).count(low, high) == sum(map(bool, cells))
