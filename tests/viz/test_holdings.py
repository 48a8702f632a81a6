"""The cells that each device holds, against a look at every device."""

import random
from collections import defaultdict
from math import prod

import pytest

import spmd_grid as sg
from spmd_grid.grid.layout import Layout
from spmd_grid.viz.holdings import blocks_of, idle_devices, n_blocks, shown_parts


def random_layout(seed):
    draw = random.Random(seed)
    grid = sg.Grid([draw.randint(1, 4) for _ in range(draw.randint(1, 3))])
    shape = tuple(draw.choice([0, 1, 2, 5, 7, 9]) for _ in range(draw.randint(0, 3)))
    split, partial = [[] for _ in shape], []
    for axis in draw.sample(range(grid.ndim), grid.ndim):
        draw.choice([*split, [], partial]).append(axis)
    options = {"blocks": draw.choice(["ceil", "balanced"])}
    sharded = [d for d, axes in enumerate(split) if axes]
    if draw.random() < 0.3:
        sizes = [prod(grid.shape[axis] for axis in split[d]) for d in sharded]
        options = {
            "sharded_dims_offsets": [
                [0, *sorted(draw.randint(0, shape[d]) for _ in range(size - 1)), shape[d]]
                for d, size in zip(sharded, sizes)
            ]
        }
    halos = [(draw.randint(0, 2), draw.randint(0, 2)) for _ in sharded]
    return Layout(sg.Sharding(grid, split, partial_axes=partial, halo_sizes=halos, **options), shape)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(200))
def test_blocks_and_their_holders(seed):
    layout = random_layout(seed)
    grid = layout.grid
    devices = [grid.multi_index(device) for device in range(grid.size)]
    holders, windows = defaultdict(list), {}
    for coords in devices:
        box = layout.core_box(coords)
        if not box.is_empty:
            holders[box].append(coords)
            windows[box] = layout.local_box(coords).intersect(layout.domain_box)
    blocks = list(blocks_of(layout, shown_parts(layout, 100)))
    assert [block.box for block in blocks] == sorted(holders, key=lambda box: box.starts)
    for block in blocks:
        assert list(block.holders.coords()) == holders[block.box] and block.holders.size == len(holders[block.box])
        assert block.window == windows[block.box]
        assert block.holders.is_partial == bool(layout.sharding.partial_axes)
    assert n_blocks(layout) == len(holders)
    idle = {coords for coords in devices if layout.core_box(coords).is_empty}
    count, patterns = idle_devices(layout)
    assert count == len(idle) and {coords for pattern in patterns for coords in pattern.coords()} == idle


def test_few_parts_of_very_many():
    layout = Layout(sg.Sharding(sg.Grid((1 << 10, 1 << 10)), [[], [1, 0]], blocks="balanced"), (5, (1 << 20) - 1))
    ((whole,), parts) = shown_parts(layout, 5)
    assert (whole.digits, whole.start, whole.stop) == ((), 0, 5)
    assert [part and (part.digits, part.start) for part in parts] == [
        ((0, 0), 0),
        ((0, 1), 1),
        ((0, 2), 2),
        None,
        ((1023, 1022), (1 << 20) - 2),
    ]
    assert n_blocks(layout) == (1 << 20) - 1 and idle_devices(layout) == (1, [])
