"""Arguments that nobody should pass: each gives what the oracle says, or an SpmdError, the same on all ranks.

Never another exception, never a hang.  An argument is drawn from what may be right and, now and then, from anything.
"""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.properties.fuzzed import INTS, NAMES, WILD, often, outcome, sharding_arguments
from support.properties.property_oracle import coordinates
from support.properties.property_strategies import shardings
from support.properties.shards_oracle import core_of

import spmd_grid as sg

# -- values ------------------------------------------------------------------------------------------------------


@given(often(INTS), often(NAMES), often(st.none() | st.permutations(range(4)) | st.lists(st.integers(0, 20))))
def test_grid(shape, names, ranks):
    grid, refused = outcome(lambda: sg.Grid(shape, axis_names=names, ranks=ranks))
    if refused:
        return
    assert grid.shape == tuple(map(int, shape)) and min(grid.shape) > 0
    assert grid == sg.Grid(grid.shape, grid.axis_names, grid.ranks) and hash(grid) == hash(eval(repr(grid), vars(sg)))
    assert grid.size == math.prod(grid.shape)
    for device in {0, grid.size // 2, grid.size - 1}:
        assert grid.linear_index(grid.multi_index(device)) == device
        assert grid.device_of_process(grid.process(device)) == device
        if grid.size < 10_000:
            assert grid.multi_index(device) == coordinates(grid.shape)[device]


@given(st.data(), often(INTS), WILD, WILD)
def test_questions_to_a_grid(data, shape, first, second):
    grid = sg.Grid((2, 3), axis_names=("x", "y"))
    axes = data.draw(often(st.sampled_from([[0], ["y", 0], (1,), []]), st.just(first)))
    for ask in (
        lambda: grid.grid_shape(axes),
        lambda: grid.axes(axes),
        lambda: grid.multi_index(first, axes),
        lambda: grid.linear_index(first),
        lambda: grid.process(second),
        lambda: grid.neighbors_linear_indices(first, axes),
        lambda: grid.neighbors_linear_indices((0, 1), axes),
        lambda: grid.check_coords(second),
    ):
        outcome(ask)


def check_blocks(sharding, shape):
    """Cores tile the array, as the oracle says."""
    owned = np.zeros(shape, int)
    for coords in np.ndindex(sharding.grid.shape):
        cells = sharding.shard_slices(shape, coords)
        assert (..., *cells) == core_of(sharding, shape, coords)
        if not any(coords[axis] for axis in (*sharding.replicated_axes, *sharding.partial_axes)):
            owned[cells] += 1
    assert (owned == 1).all()


@given(sharding_arguments(), often(st.just(sg.Grid((2, 3), axis_names=("x", "y")))), often(st.just((7, 5, 4))))
def test_sharding(arguments, grid, shape):
    split, options = arguments
    sharding, refused = outcome(lambda: sg.Sharding(grid, split, **options))
    if refused:
        return
    assert sharding == eval(repr(sharding), vars(sg)) and hash(sharding) == hash(eval(repr(sharding), vars(sg)))
    assert str(sharding)
    layout, refused = outcome(lambda: sharding.check_global_shape(shape))
    if not refused and math.prod(layout) < 10_000:
        check_blocks(sharding, layout)
    for ask in (sharding.shard_shape, sharding.core_shape, sharding.shard_slices):
        outcome(lambda ask=ask: ask(shape, (1, 2)))
        outcome(lambda ask=ask: ask((7, 5, 4), shape))


@given(st.data())
def test_plan_reshard(data):
    draw, shape = data.draw, (6, 5)
    source, target = (draw(often(shardings((2, 3), shape, ["sum"]))) for _ in range(2))
    arguments = [
        draw(often(st.just(shape))),
        draw(often(st.sampled_from(["float64", "int8", np.dtype("c8"), ["f4", "i2"]]))),
    ]
    options = {
        "strategy": draw(often(st.sampled_from(["auto", "direct", "basis"]))),
        "memory_limit": draw(often(st.sampled_from([None, 10_000, 64]))),
        "links": draw(often(st.sampled_from([None, sg.LinkModel()]))),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(options)), unique=True, max_size=2))
    plan, refused = outcome(lambda: sg.plan_reshard(source, target, *arguments, **{k: options[k] for k in chosen}))
    if not refused:
        assert str(plan) and plan.totals().received >= 0 and plan.seconds >= 0
        for coords in (draw(WILD), (0, 0)):
            outcome(
                lambda coords=coords: (plan.bytes_received(coords), plan.bytes_sent(coords), plan.peak_bytes(coords))
            )
