"""Operations that undo one another, or make up one another."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.properties.property_oracle import assert_same, cuts, group_of
from support.properties.property_strategies import NUMERIC, cases, grid_shapes, shardings, tensor_shapes, with_fixtures
from support.same_bytes import same_bytes

import spmd_grid as sg


def axis_of(draw, case) -> int:
    return draw(st.integers(0, len(case.shapes[0]) - 1))


def cut_by_rule(case, axis) -> None:
    """Makes the extents along ``axis`` those of the blocks into which the group cuts it."""
    sizes = [case.grid_shape[a] for a in case.axes]
    places = [group_of(case.grid_shape, case.axes, rank).index(rank) for rank in range(case.n_ranks)]
    blocks = cuts(case.shapes[0][axis], sizes)
    case.shapes = [
        (*shape[:axis], blocks[place][1] - blocks[place][0], *shape[axis + 1 :])
        for shape, place in zip(case.shapes, places, strict=True)
    ]


def run_and_compare(spmd, case, body) -> None:
    """``body(x, grid)`` on every rank gives x."""
    xs = case.arrays()

    def on_rank():
        grid = sg.init_grid(case.grid_shape)
        assert_same(body(xs[grid.rank], grid), xs[grid.rank])

    with sg.forced_path(case.path):
        spmd(case.n_ranks, on_rank)


@with_fixtures
@given(st.data())
def test_slice_of_gather_is_x(spmd, most_ranks, data):
    case = data.draw(cases(most_ranks))
    axis = axis_of(data.draw, case)
    cut_by_rule(case, axis)

    def body(x, grid):
        return sg.all_slice(sg.all_gather(x, grid, case.axes, axis), grid, case.axes, axis)

    run_and_compare(spmd, case, body)


@with_fixtures
@given(st.data())
def test_all_to_all_there_and_back(spmd, most_ranks, data):
    case = data.draw(cases(most_ranks))
    split, concat = axis_of(data.draw, case), axis_of(data.draw, case)
    if split == concat:
        concat = (split + 1) % len(case.shapes[0])
        if split == concat:
            return
    cut_by_rule(case, concat)

    def body(x, grid):
        there = sg.all_to_all(x, grid, case.axes, split, concat)
        return sg.all_to_all(there, grid, case.axes, concat, split)

    run_and_compare(spmd, case, body)


@with_fixtures
@given(st.data())
def test_gather_of_reduce_scatter_is_all_reduce(spmd, most_ranks, data):
    case = data.draw(cases(most_ranks, NUMERIC))
    axis = axis_of(data.draw, case)
    whole = np.dtype(case.dtype).kind in "biu"
    kinds = ["sum", "max", "min", "product", "average"] + ["bitwise_and", "bitwise_or", "bitwise_xor"] * whole
    kind = data.draw(st.sampled_from(kinds))
    xs = case.arrays()

    def body():
        grid = sg.init_grid(case.grid_shape)
        x = xs[grid.rank]
        part = sg.reduce_scatter(x, grid, case.axes, kind, scatter_axis=axis)
        gathered = sg.all_gather(part, grid, case.axes, axis)
        reduced = sg.all_reduce(x, grid, case.axes, kind)
        assert_same(gathered, reduced)
        if case.dtype == "g":  # 6 of its 16 bytes are padding
            return None
        assert same_bytes(gathered, reduced)
        return reduced.tobytes()

    with sg.forced_path(case.path):
        results = spmd(case.n_ranks, body)
    for rank, bits in enumerate(results):
        same = bits == results[group_of(case.grid_shape, case.axes, rank)[0]]
        assert same, rank


@with_fixtures
@given(st.data())
def test_gather_over_axes_is_gather_over_each_from_the_last(spmd, most_ranks, data):
    case = data.draw(cases(most_ranks))
    axis = axis_of(data.draw, case)
    if data.draw(st.booleans()):
        cut_by_rule(case, axis)

    def body(x, grid):
        step = x
        for grid_axis in reversed(case.axes):
            step = sg.all_gather(step, grid, [grid_axis], axis)
        whole = sg.all_gather(x, grid, case.axes, axis)
        assert same_bytes(step, whole)
        assert step.shape == whole.shape
        return x

    run_and_compare(spmd, case, body)


@with_fixtures
@given(st.data())
def test_slice_over_axes_is_slice_over_each_from_the_first(spmd, most_ranks, data):
    case = data.draw(cases(most_ranks))
    axis = axis_of(data.draw, case)

    def body(x, grid):
        step = x
        for grid_axis in case.axes:
            step = sg.all_slice(step, grid, [grid_axis], axis)
        whole = sg.all_slice(x, grid, case.axes, axis)
        assert same_bytes(step, whole)
        assert step.shape == whole.shape
        return x

    run_and_compare(spmd, case, body)


@with_fixtures
@given(st.data())
def test_scatter_then_gather(spmd, most_ranks, data):
    case = data.draw(cases(most_ranks))
    axis = axis_of(data.draw, case)
    root = [data.draw(st.integers(0, case.grid_shape[a] - 1)) for a in case.axes]

    def body(x, grid):
        is_root = [grid.coords[a] for a in case.axes] == root
        part = sg.scatter(x if is_root else None, grid, case.axes, axis, root)
        whole = sg.gather(part, grid, case.axes, axis, root)
        assert (whole is not None) == is_root
        return whole if is_root else x

    run_and_compare(spmd, case, body)


@with_fixtures
@given(st.data())
def test_shift_there_and_back(spmd, most_ranks, data):
    case = data.draw(cases(most_ranks, least_axes=1, least_ndim=0))
    case.shapes = [data.draw(tensor_shapes(0)) for _ in case.shapes]
    along = data.draw(st.sampled_from(case.axes))
    offset = data.draw(st.integers(-5, 5))

    def body(x, grid):
        there = sg.shift(x, grid, case.axes, along, offset, rotate=True)
        return sg.shift(there, grid, case.axes, along, -offset, rotate=True)

    run_and_compare(spmd, case, body)


@given(st.data())
def test_blocks_tile_the_extent(data):
    """Cores of the devices that hold different parts cover every cell exactly once; replicas hold the same cells."""
    grid_shape = data.draw(grid_shapes(24))
    shape = data.draw(tensor_shapes().filter(lambda shape: math.prod(shape) < 10_000))
    sharding = data.draw(shardings(grid_shape, shape))
    owned = np.zeros(shape, int)
    held = set()
    for coords in np.ndindex(grid_shape):
        cells = sharding.shard_slices(shape, coords)
        assert sharding.core_shape(shape, coords) == owned[cells].shape
        held.add(tuple((c.start, c.stop) for c in cells))
        if all(coords[axis] == 0 for axis in sharding.replicated_axes):
            owned[cells] += 1
    assert (owned == 1).all()
    blocks = math.prod(n for axis, n in enumerate(grid_shape) if axis not in sharding.replicated_axes)
    assert len(held) <= blocks
