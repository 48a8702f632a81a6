"""The choice of the copy that serves, and the cost of finding it, which does not grow with the grid."""

import math
import random

import numpy as np
import pytest
from support.reshard.pairs import how_many, moved_between, some_shape
from support.reshard.reshard_oracle import check_moves, lacks, random_sharding, side, size, window

from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.geometry import replicas
from spmd_grid.reshard.geometry.cuts import CutDimension
from spmd_grid.reshard.geometry.messages import Redistribution


def load_ratio(moved, moves):
    """The most loaded sender against an ideal: the work on each block shared evenly by those who hold it."""
    source, target = side(moved.source), side(moved.target)
    work = dict.fromkeys(map(tuple, source.cores), 0)
    ideal = 0
    for block in work:
        holders = {source.processes[d] for d in range(len(source.cores)) if tuple(source.cores[d]) == block}
        for device, process in enumerate(target.processes):
            if process not in holders:
                common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(block, target.windows[device])]
                work[block] += size(common)
        ideal = max(ideal, work[block] / len(holders))
    loads = dict.fromkeys(source.processes, 0)
    for (sender, _), cells in moves.items():
        loads[sender] += cells
    return max(loads.values()) / ideal if ideal else None


GRID_PAIRS = ["one grid", "other processes", "some common processes"]


def random_ratios(n, grids, ndims, seed):
    """Load ratios where sources are replicated, on extents that all grids divide: uneven blocks would blur them."""
    rng, ratios = random.Random(seed), []
    while len(ratios) < n:
        source, target = (Grid(rng.choice([(2, 3), (2, 2, 2), (2, 3, 2), (4, 3), (4, 4), (2, 2, 4)])) for _ in range(2))
        if grids == "one grid":
            target = source
        elif grids == "other processes":
            target = Grid(target.shape, ranks=range(100, 100 + target.size))
        shape = (48,) * rng.choice(ndims)
        layouts = [Layout(random_sharding(rng, grid, shape, plain=True), shape) for grid in (source, target)]
        if side(layouts[0]).copies_of(0) > 1 and sum(lacks(*layouts)):
            moved = Redistribution(*layouts)
            moves = {
                (process, piece.process): piece.box.size
                for process, at in enumerate(side(layouts[0]).coords)
                for piece in moved.sends(at)
            }
            ratios.append(load_ratio(moved, moves))
    return ratios


@pytest.mark.parametrize("grids", GRID_PAIRS)
def test_senders_are_balanced(request, grids):
    ratios = random_ratios(how_many(request, 200), grids, [1, 2, 2], 21)
    assert np.median(ratios) <= 1.34 and np.quantile(ratios, 0.9) <= 2.2, np.quantile(ratios, [0.5, 0.9, 1])


@pytest.mark.parametrize("grids", GRID_PAIRS)
def test_large_boxes_are_cut_among_copies(request, grids, monkeypatch):
    """On lines there is no other dimension to cut along than that which the target cuts as well."""
    monkeypatch.setattr(replicas, "_SHARE_BYTES", 8)
    ratios = random_ratios(how_many(request, 150), grids, [2], 22)
    assert np.quantile(ratios, 0.9) <= 1.1, np.quantile(ratios, [0.5, 0.9, 1])


def test_a_box_is_cut_where_its_slices_are_large_enough():
    """Two copies, both wanted by devices on the other half: small boxes come from one copy, large ones from both."""
    grid = Grid((2, 2))
    for rows, senders in [(1024, 1), (4096, 2)]:
        moved = moved_between(grid, [[0]], [[], [1]], (rows, 16), itemsize=8)
        assert len(moved.receives((0, 1))) == senders
        check_moves(moved)


def test_contributions_are_cut_among_their_copies(monkeypatch):
    """Four copies of the second contribution, wanted by the two processes that have the first: a quarter from each."""
    monkeypatch.setattr(replicas, "_SHARE_BYTES", 8)
    source, target = Sharding(Grid((2, 4)), [[]], partial_axes=[0]), Sharding(Grid((2,)), [[0]])
    moved = Redistribution(Layout(source, (48,)), Layout(target, (48,)))
    sent = [sum(piece.box.size for piece in moved.sends((1, copy))) for copy in range(4)]
    assert sent == [12, 12, 12, 12]


@pytest.mark.parametrize("node_axes", [1, 2])
def test_copies_on_the_own_node_serve(request, node_axes):
    """A node is a block of the last axes.  What a process of it holds is fetched from no other node."""
    rng, n_fetched = random.Random(31 + node_axes), 0
    for _ in range(how_many(request, 150)):
        grid = Grid(rng.choice([(2, 3), (2, 2, 2), (2, 3, 2), (3, 2, 2)]))
        node_size = math.prod(grid.shape[max(grid.ndim - node_axes, 1) :])
        shape = some_shape(rng, rng.choice([1, 2]))
        layouts = [Layout(random_sharding(rng, grid, shape), shape) for _ in range(2)]
        moved = Redistribution(*layouts, node_size=node_size)
        check_moves(moved)
        held = side(layouts[0])
        for process, at in enumerate(side(layouts[1]).coords):
            node = range(process - process % node_size, process - process % node_size + node_size)
            for sender, box in moved.receives(at):
                if sender not in node:
                    here = np.zeros(shape, bool)
                    for device in node:
                        here[window(held.cores[device], len(shape))] = True
                    assert not here[box.slices()].any(), (moved, at, sender, box)
                    n_fetched += 1
    assert n_fetched


# -- cost --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def counted(monkeypatch):
    """Count the searches for parts of a dimension."""
    count = [0]

    def counting(method):
        def wrapper(*args):
            count[0] += 1
            return method(*args)

        return wrapper

    for name in ("children", "child", "interval", "window"):
        monkeypatch.setattr(CutDimension, name, counting(getattr(CutDimension, name)))
    return count


@pytest.mark.parametrize(
    ["source", "target"],
    [
        ([[0], [1]], [[1], [0]]),
        ([[0, 1]], [[1, 0]]),
        ([[0], []], [[], [0]]),
        ([[0]], [[1]]),
        ([[0]], [[0, 1]]),
        ([[0], [1]], [[0], [1]]),
    ],
    ids=str,
)
def test_cost_does_not_grow_with_the_grid(source, target, counted):
    """From 8 devices to two millions: with as many partners, as many parts are looked at."""
    costs = {}
    for m in (2, 16, 128, 1024):
        n = 2 * m
        shape = (8 * n * m,) * len(source)
        moved = moved_between(Grid((n, m)), source, target, shape)
        moved.receives((0, 1)), moved.sends((0, 1))  # what is found once for all devices
        for at in [(0, 0), (1, 1), (n - 1, 0), (n - 1, m - 1)]:
            counted[0] = 0
            partners = len(moved.receives(at)), len(moved.sends(at))
            costs.setdefault(partners, []).append(counted[0])
    for partners, counts in costs.items():
        assert max(counts) <= 16 + 12 * sum(partners), costs
        assert max(counts) - min(counts) <= 8, costs


def test_cost_of_equal_partner_counts_is_equal(counted):
    """Blocks of the source are half those of the target, whatever the number of devices."""
    costs = []
    for n in (8, 64, 1024, 1 << 15, 1 << 20):
        moved = Redistribution(
            Layout(Sharding(Grid((n,)), [[0]]), (4 * n,)),
            Layout(Sharding(Grid((n // 2, 2)), [[0]]), (4 * n,)),
        )
        device = n // 2 + 2
        counted[0] = 0
        partners = len(moved.receives((device // 2, 0))) + len(moved.sends((device,)))
        costs.append((partners, counted[0]))
    assert len(set(costs)) == 1, costs
    costs = []
    for k in (3, 6, 10):
        n = 1 << k
        moved = moved_between(Grid((n, n)), [[0], [1]], [[1], [0]], (5 * n, 5 * n))
        counted[0] = 0
        partners = len(moved.receives((1, 2))) + len(moved.sends((1, 2)))
        costs.append((partners, counted[0]))
    assert len(set(costs)) == 1, costs


def test_every_device_of_a_million_is_as_cheap():
    """Two partners on 2^20 devices agree on their messages; nothing walks over all, which would take seconds."""
    grid = Grid((1024, 1024))
    moved = moved_between(grid, [[0], [1]], [[1], [0]], (100_000, 200_001))
    for at in [(0, 0), (5, 1000), (511, 512), (1023, 3)]:
        wanted = moved.target_box(at)
        boxes = [piece.box for piece in moved.receives(at)]
        kept = moved.kept_box(at)
        assert sum(box.size for box in boxes) + (0 if kept is None else kept.size) == wanted.size
        for sender, box in moved.receives(at):
            sent = moved.sends(grid.multi_index(sender))
            assert [piece.box for piece in sent if piece.process == grid.linear_index(at)] == [box]
            assert Box.from_shape((100_000, 200_001)).contains(box)
