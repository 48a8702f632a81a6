"""Totals over all devices without enumerating them, against sums and maxima over each device."""

import doctest
import math
import random
import statistics
from itertools import product

import numpy as np
import pytest
from support.reshard.reshard_oracle import cuts, random_sharding

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.geometry import replicas
from spmd_grid.reshard.geometry.cuts import CutDimension, cuts_of
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.volume import descent, digits, sliding_boxes, totals
from spmd_grid.reshard.volume.descent import Descent
from spmd_grid.reshard.volume.digits import common_digits
from spmd_grid.reshard.volume.sliding_boxes import common_cells
from spmd_grid.reshard.volume.totals import Totals, exchange_totals, most_local

SHAPES = [(2,), (3,), (6,), (24,), (2, 3), (4, 2), (4, 3), (12, 2), (3, 1, 2), (2, 2, 2), (2, 3, 2), (2, 2, 3, 2)]
EXTENTS = [0, 1, 2, 3, 5, 7, 12, 13, 40]


def devices(grid):
    return [grid.multi_index(device) for device in range(grid.size)]


def by_device(move) -> tuple[int, int, int]:
    """Received in all, by the busiest receiver, and sent by the busiest sender, from each device's own lists."""
    received = [sum(piece.box.size for piece in move.receives(coords)) for coords in devices(move.target.grid)]
    sent = [sum(piece.box.size for piece in move.sends(coords)) for coords in devices(move.source.grid)]
    return sum(received) * move.itemsize, max(received) * move.itemsize, max(sent) * move.itemsize


def check(move) -> Totals:
    found, (received, most_received, most_sent) = exchange_totals(move), by_device(move)
    assert found[:2] == (received, most_received), move
    assert found.most_sent == most_sent if found.exact else found.most_sent >= most_sent, (move, most_sent)
    return found


def random_move(rng, source_grid, target_grid, **options):
    shape = [rng.choice(EXTENTS) for _ in range(rng.choice([1, 2, 2, 3]))]
    partial = rng.random() < 0.3
    source, target = (Layout(random_sharding(rng, grid, shape, partial), shape) for grid in (source_grid, target_grid))
    return Redistribution(source, target, rng.choice([1, 8]), rng.choice([1, 2, 3, 6]), **options)


def has_copies(layout) -> bool:
    return any(layout.grid.shape[axis] > 1 for axis in layout.sharding.replicated_axes)


@pytest.mark.parametrize("share_bytes", [1 << 16, 16], ids=["whole", "shared"])
@pytest.mark.parametrize("part", [1, pytest.param(20, marks=pytest.mark.full)], ids=["some", "many"])
def test_one_grid_against_each_device(share_bytes, part, monkeypatch):
    monkeypatch.setattr(replicas, "_SHARE_BYTES", share_bytes)
    rng = random.Random(share_bytes)
    for _ in range(200 * part):
        grid = Grid(rng.choice(SHAPES))
        move = random_move(rng, grid, grid)
        found = check(move)
        assert found.exact or has_copies(move.source) or move.target.sharding.halo_sizes, move


@pytest.mark.parametrize("share_bytes", [1 << 16, 16], ids=["whole", "shared"])
@pytest.mark.parametrize("part", [1, pytest.param(20, marks=pytest.mark.full)], ids=["some", "many"])
def test_two_grids_against_each_device(share_bytes, part, monkeypatch):
    """Of any shapes: some have common digits, the devices of the others are listed; of equal or other processes."""
    monkeypatch.setattr(replicas, "_SHARE_BYTES", share_bytes)
    rng = random.Random(-share_bytes)
    listed = 0
    for n in range(200 * part):
        shapes = [rng.choice(SHAPES) for _ in range(2)]
        processes = rng.sample(range(30), 30)
        if n % 4 == 0:
            shapes[1] = rng.choice([shape for shape in SHAPES if math.prod(shape) == math.prod(shapes[0])])
        source, target = (
            Grid(shape, ranks=processes[: math.prod(shape)] if here else None)
            for shape, here in zip(shapes, [(False, False), (False, False), (True, False), (True, True)][n % 4])
        )
        move = random_move(rng, source, target)
        found = check(move)
        assert found.exact or has_copies(move.source) or move.target.sharding.halo_sizes, move
        listed += common_digits(source, target) is None
    assert 0.2 < listed / (200 * part) < 0.8


def test_bounds_are_near():
    """A bound on the most loaded sender is mostly close."""
    rng, ratios = random.Random(8), []
    while len(ratios) < 150:
        source, target = Grid(rng.choice(SHAPES)), Grid(rng.choice(SHAPES))
        move = random_move(rng, source, rng.choice([source, target]))
        found = exchange_totals(move)
        if not found.exact:
            most_sent = by_device(move)[2]
            ratios.append(found.most_sent / most_sent if most_sent else math.inf)
    assert statistics.median(ratios) <= 1.5 and sorted(ratios)[int(0.85 * len(ratios))] <= 4


# -- larger grids ------------------------------------------------------------------------------------------------------


def by_arrays(layout) -> list:
    """By dimension (starts, stops) of all devices' boxes, as arrays that broadcast to the grid's shape."""
    sharding, boxes = layout.sharding, []
    for dim, extent in enumerate(layout.global_shape):
        axes = sharding.axes_of(dim)
        sizes = [layout.grid.shape[axis] for axis in axes]
        ends = np.array(cuts(extent, sizes, sharding.blocks)).reshape(*sizes, 2)
        low, high = sharding.halo_of(dim)
        where = np.ix_(*[range(size) for size in sizes])
        order = [axes.index(axis) for axis in sorted(axes)]
        shape = [size if axis in axes else 1 for axis, size in enumerate(layout.grid.shape)]
        start, stop = (ends[..., k][where].transpose(order).reshape(shape) for k in (0, 1))
        boxes.append((np.maximum(start - low, 0), np.minimum(stop + high, extent)))
    return boxes


def by_array(source, target):
    """(received, most received, what the busiest sender sends if each cell has one holder), in cells."""
    held, wanted, grid = by_arrays(source), by_arrays(target), source.grid.shape
    sizes = [math.prod(stop - start for start, stop in boxes) for boxes in (held, wanted)]
    overlap = math.prod(np.maximum(np.minimum(b, d) - np.maximum(a, c), 0) for (a, b), (c, d) in zip(held, wanted))
    received = np.broadcast_to(sizes[1] - overlap, grid)
    copies = math.prod(grid[axis] for axis in target.sharding.replicated_axes)
    return int(received.sum()), int(received.max()), int((copies * sizes[0] - overlap).max())


def sharded_somehow(rng, grid, shape, halos):
    """Most axes split something."""
    split = [[] for _ in shape]
    for axis in rng.sample(range(grid.ndim), grid.ndim):
        if rng.random() < 0.8:
            rng.choice(split).append(axis)
    sizes = [(rng.randrange(4), rng.randrange(4)) for axes in split if axes] if halos else None
    return Layout(Sharding(grid, split, blocks=rng.choice(["ceil", "balanced"]), halo_sizes=sizes), shape)


@pytest.mark.parametrize("part", [1, pytest.param(10, marks=pytest.mark.full)], ids=["some", "many"])
def test_larger_grids_against_arrays(part):
    rng = random.Random(21)
    for _ in range(100 * part):
        grid = Grid(rng.choice([(64, 32), (16, 12, 10), (1024, 2), (5, 6, 7, 8), (2,) * 10, (2048,), (4, 4, 4, 4, 4)]))
        shape = [rng.choice([64, 100, 255, 1000, 4096, 4097]) for _ in range(rng.choice([1, 2, 3]))]
        source = sharded_somehow(rng, grid, shape, halos=False)
        target = sharded_somehow(rng, grid, shape, halos=rng.random() < 0.3)
        found = exchange_totals(Redistribution(source, target, 1))
        received, most_received, most_sent = by_array(source, target)
        assert found[:2] == (received, most_received), (source, target)
        if found.exact and not has_copies(source):
            assert found.most_sent == most_sent, (source, target)


def moved(grid, shape, source, target, target_grid=None, **options) -> Redistribution:
    grid = Grid(grid)
    target_grid = grid if target_grid is None else Grid(target_grid)
    return Redistribution(
        Layout(Sharding(grid, source), shape), Layout(Sharding(target_grid, target, **options), shape), 1
    )


# grid, source, target; received in all, by the busiest receiver, sent by the busiest sender; of 65536 x 65536 cells.
MILLION = {
    # On every line of 1024, 64 rows of 65536 become 64 columns; 64 x 64 cells stay.
    "rows to columns": ((1024, 1024), [[0]], [[], [0]], 2**20 * 64 * (65536 - 64), 64 * 65472, 64 * 65472),
    # Only the diagonal keeps its block.
    "swap": ((1024, 1024), [[0], [1]], [[1], [0]], (2**20 - 1024) * 64 * 64, 64 * 64, 64 * 64),
    # 131072 devices hold half a row and want half a column; every second one keeps the cell where they cross.
    "swap, long and thin": ((1 << 19, 2), [[0], [1]], [[1], [0]], 65536 * 32768 * 2 - 65536, 32768, 32768),
    "gather": ((1024, 1024), [[0], [1]], [[0]], 2**20 * 64 * 65472, 64 * 65472, 1023 * 64 * 64),
    "gather of copies": ((1024, 1024), [[0]], [], 2**20 * 65472 * 65536, 65472 * 65536, 1023 * 64 * 65536),
    "slice": ((1024, 1024), [], [[0, 1]], 0, 0, 0),
    # 65536 devices have a row each, and want a column.
    "all rows to all columns": ((1024, 1024), [[0, 1]], [[], [0, 1]], 65536 * 65535, 65535, 65535),
}


@pytest.mark.parametrize("case", MILLION)
def test_closed_forms_on_a_million_devices(case):
    grid, source, target, *expected = MILLION[case]
    assert exchange_totals(moved(grid, (65536, 65536), source, target)) == (*expected, True)


def test_a_grid_in_another_shape_keeps_everything():
    same = moved((1024, 1024), (65536, 65536), [[0], [1]], [[0], [1, 2]], (1024, 32, 32))
    assert exchange_totals(same) == (0, 0, 0, True)
    # A block of the larger grid's is a sixteenth; of the first 2^16 devices, some hold a part of what they want.
    fewer = moved((1024, 1024), (65536, 65536), [[0], [1]], [[0], [1]], (256, 256))
    found = exchange_totals(fewer)
    kept = sum(
        max(min(a * 64 + 64, c * 256 + 256) - max(a * 64, c * 256), 0)
        * max(min(b * 64 + 64, d * 256 + 256) - max(b * 64, d * 256), 0)
        for device in range(1 << 16)
        for (a, b), (c, d) in [(divmod(device, 1024), divmod(device, 256))]
    )
    assert found == (65536**2 - kept, 65536, 64 * 64, True)


@pytest.mark.parametrize(
    "source, target",
    [([[0], [1]], [[1], [0]]), ([[0, 1]], [[1, 0]]), ([[0, 1]], [[], [0, 1]]), ([[0, 1]], [[1]]), ([[0], [1]], [])],
    ids=str,
)
@pytest.mark.parametrize("shape", [(65536, 65536), (65543, 65537)], ids=["even", "uneven"])
def test_work_grows_with_one_axis_at_most(source, target, shape, monkeypatch):
    steps = 0
    step = Descent.step

    def counting(self, prefix, choice):
        nonlocal steps
        steps += 1
        return step(self, prefix, choice)

    monkeypatch.setattr(Descent, "step", counting)
    for side in (32, 1024):
        steps = 0
        exchange_totals(moved((side, side), shape, source, target))
        assert steps < 40 * side, side


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_grids_too_large_to_list(monkeypatch):
    """Upper bounds, and said to be so."""
    rng = random.Random(4)
    for limit in (0, 6, 12):
        monkeypatch.setattr(totals, "_MOST_LISTED", limit)
        for _ in range(60):
            shapes = rng.sample([(4,), (6,), (2, 3), (12,), (3, 5)], 2)
            source, target = (Grid(shape, ranks=rng.sample(range(20), math.prod(shape))) for shape in shapes)
            move = random_move(rng, source, target)
            found, expected = exchange_totals(move), by_device(move)
            assert all(a >= b for a, b in zip(found, expected)), (move, found, expected)
            if found.exact:
                assert found[:3] == expected
            assert not found.exact or max(source.size, target.size) <= limit or not found.received


def test_largest_local_array():
    rng = random.Random(2)
    for _ in range(100):
        grid = Grid(rng.choice(SHAPES))
        shape = [rng.choice(EXTENTS) for _ in range(rng.choice([1, 2, 3]))]
        layout = Layout(random_sharding(rng, grid, shape, partial=True), shape)
        assert most_local(layout) == max(math.prod(layout.local_shape(coords)) for coords in devices(grid))


def test_no_dimensions():
    grid = Grid((2, 3))
    move = Redistribution(Layout(Sharding(Grid((2,)), []), ()), Layout(Sharding(grid, []), ()), 8)
    assert exchange_totals(move)[:2] == (4 * 8, 8) == by_device(move)[:2]
    assert most_local(move.target) == 1


def run_steps_of(cut):
    return [(digits, cut.interval(digits), cut.window(digits)) for digits in product(*map(range, cut.sizes))]


def test_descents_sum_up_all_parts():
    """Extents and how many there are, and counts of the parts that meet an interval; axes as digits of their own."""
    rng = random.Random(6)
    for _ in range(300):
        sizes = [rng.choice([1, 2, 3, 6]) for _ in range(rng.choice([0, 1, 2, 3]))]
        extent = rng.choice(EXTENTS)
        count, halo, offsets = math.prod(sizes), (0, 0), None
        if sizes and rng.random() < 0.5:
            halo = rng.randrange(4), rng.randrange(4)
        if sizes and rng.random() < 0.3:
            offsets = (0, *sorted(rng.randrange(extent + 1) for _ in range(count - 1)), extent)
        cut = CutDimension(extent, range(len(sizes)), sizes, rng.choice(["ceil", "balanced"]), offsets, halo)
        parts = run_steps_of(cut)
        names = iter(range(20))
        split = {
            axis: [(next(names), k) for k in ((2, 3) if size == 6 else (size,))] for axis, size in enumerate(sizes)
        }
        for line in (Descent(cut), Descent(cut, split)):
            found = [cells for cells, n in line.extents() for _ in range(n)]
            assert sorted(found) == sorted(high - low for _, _, (low, high) in parts)
            low, high = sorted(rng.randrange(extent + 2) for _ in range(2))
            assert line.count(low, high) == sum(max(a, low) < min(b, high) for _, (a, b), _ in parts)


def test_few_kinds_of_parts():
    """65543 cells over 1024 x 1024: 1008 times 65, 23, and 15 times 0; each of them into single cells."""
    (cut,) = cuts_of(Layout(Sharding(Grid((1024, 1024)), [[0, 1]]), (65543,)), None, halos=False)
    assert sorted(Descent(cut).extents()) == [(0, 2**20 - 65543), (1, 65543)]


def test_sliding_boxes():
    """Sums of series against each step; both boxes move, or one, or none, on one side or the other."""
    rng = random.Random(9)
    for _ in range(2000):
        steps, boxes = rng.randrange(2, 12), []
        ndim = rng.choice([1, 1, 2, 3])
        for _ in range(2):
            starts = [rng.randrange(30) for _ in range(ndim)]
            extents = [rng.choice([0, 1, 2, 5, 9]) for _ in range(ndim)]
            by = [rng.choice([0, 0, 1, 2, 5, -1, -3]) for _ in range(ndim)]
            boxes.append([[(a + i * b, a + i * b + n) for a, n, b in zip(starts, extents, by)] for i in range(steps)])
        places = list(zip(*boxes))
        each = [common_cells(*place) for place in places]
        assert sliding_boxes.sliding_overlaps(places[0], places[1], steps) == (min(each), sum(each))


@pytest.mark.parametrize(
    ("grid", "shape", "source", "target"),
    [
        ((64, 64, 256), (1000000, 8), ([[2, 0], [1]], "balanced"), ([[2, 1]], "ceil")),
        ((64, 64, 256), (1000000, 8), ([[2, 0], [1]], "balanced"), ([[2, 0, 1]], "ceil")),
        ((64, 64, 256), (1000000, 1 << 20), ([[2, 1, 0]], "balanced"), ([[2, 1], [0]], "ceil")),
    ],
    ids=str,
)
def test_odd_layouts_take_few_steps(grid, shape, source, target, monkeypatch):
    """Choices of the last digit are taken together even if parts of the two sides lie at ever other distances."""
    steps = 0
    step = Descent.step

    def counting(self, prefix, choice):
        nonlocal steps
        steps += 1
        return step(self, prefix, choice)

    monkeypatch.setattr(Descent, "step", counting)
    layouts = [Layout(Sharding(Grid(grid), split, blocks=blocks), shape) for split, blocks in (source, target)]
    exchange_totals(Redistribution(*layouts))
    assert steps < 150_000


@pytest.mark.parametrize("module", [descent, digits, sliding_boxes, totals])
def test_examples(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
