"""Redistributions against a global numpy array: any layout to any other, exhaustively on small grids."""

import math
import random
from itertools import product

import numpy as np
import pytest
from support.reshard.pairs import GRIDS, pairs_of
from support.reshard.reshard_oracle import (
    all_split_axes,
    check_moves,
    check_partial_moves,
    lacks,
    random_sharding,
    side,
    size,
    window,
)

from spmd_grid.errors import DeviceError, ReductionError, ShapeError
from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.geometry import replicas
from spmd_grid.reshard.geometry.cuts import Cut
from spmd_grid.reshard.geometry.messages import Redistribution


def moved_between(grid, source, target, shape, **options) -> Redistribution:
    return Redistribution(Layout(Sharding(grid, source), shape), Layout(Sharding(grid, target), shape), **options)


@pytest.fixture(params=[None, 16], ids=["whole", "shared"])
def slices(request, monkeypatch):
    """Boxes this small are not cut among copies by themselves; here they are, too."""
    if request.param is not None:
        monkeypatch.setattr(replicas, "_SHARE_BYTES", request.param)


# -- all pairs of shardings on one grid --------------------------------------------------------------------------------


def check_pairs(grid_shape, ndim, part):
    grid = Grid(grid_shape)
    for shape, (source, target) in pairs_of(grid_shape, ndim, part):
        check_moves(moved_between(grid, source, target, shape))


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("grid_shape", GRIDS, ids=str)
def test_pairs(grid_shape, ndim):
    check_pairs(grid_shape, ndim, 1 / 60)


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("grid_shape", GRIDS, ids=str)
def test_pairs_in_slices(grid_shape, ndim, monkeypatch):
    monkeypatch.setattr(replicas, "_SHARE_BYTES", 16)
    check_pairs(grid_shape, ndim, 1 / 100)


@pytest.mark.full
@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("grid_shape", GRIDS, ids=str)
def test_all_pairs(grid_shape, ndim, slices):
    check_pairs(grid_shape, ndim, 1)


# -- block rules, halos, partial sums, other grids ---------------------------------------------------------------------

SOME_GRIDS = [*GRIDS, (3, 1, 2), (4, 2), (6,), (4, 3), (1,)]


def some_shape(rng, ndim=None):
    return tuple(rng.choice([0, 1, 2, 3, 5, 7, 12, 13]) for _ in range(rng.randrange(4) if ndim is None else ndim))


def random_moves(seed, n, one_grid=True, partial=False):
    """Random layouts, one of them at least with block rules and halos of its own."""
    rng = random.Random(seed)
    for _ in range(n):
        source = Grid(rng.choice(SOME_GRIDS))
        target = source
        if not one_grid:
            shapes = [rng.choice(SOME_GRIDS) for _ in range(2)]
            source, target = (
                Grid(shape, ranks=rng.sample(range(15), math.prod(shape)) if rng.random() < 0.6 else None)
                for shape in shapes
            )
        shape = some_shape(rng)
        layouts = [Layout(random_sharding(rng, grid, shape, partial), shape) for grid in (source, target)]
        yield Redistribution(*layouts, itemsize=8, node_size=rng.choice([1, 1, 2, 3, 6]))


def how_many(request, n):
    return 10 * n if request.config.getoption("full") else n


def test_block_rules_and_halos(request, slices):
    for moved in random_moves(1, how_many(request, 150)):
        check_moves(moved)


def test_other_grids(request, slices):
    """M processes to N: other shapes, other processes, another order of them."""
    for moved in random_moves(2, how_many(request, 150), one_grid=False):
        check_moves(moved)


@pytest.mark.parametrize("one_grid", [True, False], ids=["one grid", "two grids"])
def test_partial_sums(request, one_grid, slices):
    for moved in random_moves(3, how_many(request, 100), one_grid, partial=True):
        if moved.hidden is not None:
            check_partial_moves(moved)


def test_disjoint_processes():
    """Nobody has anything: all that is wanted is received."""
    source, target = Grid((2, 2), ranks=(3, 1, 2, 0)), Grid((5,), ranks=(9, 8, 7, 6, 5))
    layouts = [Layout(Sharding(source, [[1], [0]]), (7, 4)), Layout(Sharding(target, [[0]]), (7, 4))]
    moved = Redistribution(*layouts)
    assert sum(check_moves(moved).values()) == 28
    assert all(moved.kept_box((n,)) is None for n in range(5))


def test_the_same_layout_moves_nothing(request):
    for moved in random_moves(4, how_many(request, 40), partial=True):
        same = Redistribution(moved.source, moved.source, 8)
        if moved.source.sharding.halo_sizes is None:
            for at in side(same.source).coords:
                assert same.receives(at) == same.sends(at) == []
                box = same.source_box(at)
                assert box == same.target_box(at) and same.kept_box(at) == (None if box.is_empty else box)


def test_halos_of_the_source_are_not_read_and_those_of_the_target_are_filled():
    grid = Grid((3,))
    layouts = [
        Layout(Sharding(grid, [[0]], halo_sizes=[2, 2]), (9,)),
        Layout(Sharding(grid, [[0]], halo_sizes=[1, 1]), (9,)),
    ]
    moved = Redistribution(*layouts)
    assert [(piece.process, str(piece.box)) for piece in moved.receives((1,))] == [(0, "[2:3]"), (2, "[6:7]")]
    assert str(moved.kept_box((1,))) == "[3:6]"
    check_moves(moved)


def test_halos_wider_than_blocks():
    moved = Redistribution(
        Layout(Sharding(Grid((5,)), [[0]]), (7,)), Layout(Sharding(Grid((5,)), [[0]], halo_sizes=[4, 3]), (7,))
    )
    assert [piece.process for piece in moved.receives((2,))] == [0, 1, 3]
    check_moves(moved)


def test_a_partial_value_that_stays_so_moves_contributions():
    """[[0]] partial over 1 to partial over 0 split by 1: contribution n moves to the device that stands for it."""
    grid = Grid((2, 2))
    moved = Redistribution(
        Layout(Sharding(grid, [[0]], partial_axes=[1]), (4,)), Layout(Sharding(grid, [[1]], partial_axes=[0]), (4,))
    )
    assert moved.hidden == 2
    assert [(piece.process, str(piece.box)) for piece in moved.receives((1, 0))] == [(1, "[1:2, 0:2]")]
    check_partial_moves(moved)


def test_one_copy_becomes_the_partial_value():
    """The others combine nothing: they will hold the identity."""
    grid = Grid((3,))
    moved = Redistribution(Layout(Sharding(grid, []), (4,)), Layout(Sharding(grid, [], partial_axes=[0]), (4,)))
    assert [moved.target_box((n,)).is_empty for n in range(3)] == [False, True, True]
    assert all(moved.receives((n,)) == [] for n in range(3))
    check_partial_moves(moved)


def test_a_peers_regression():
    """(5, 3) over 2x2, both axes on one dimension, to copies: a peer loses a row and makes one of zeros up."""
    moved = moved_between(Grid((2, 2)), [[0, 1]], [[]], (5, 3))
    assert [str(moved.source_box(at)) for at in product(range(2), repeat=2)] == [
        "[0:2, 0:3]",
        "[2:3, 0:3]",
        "[3:4, 0:3]",
        "[4:5, 0:3]",
    ]
    moves = check_moves(moved)
    assert [sum(cells for (_, to), cells in moves.items() if to == device) for device in range(4)] == [9, 12, 12, 12]


def test_every_small_shape_gathers_right():
    """The same, for every grid of up to 2x3 and every shape up to 7 by 3."""
    for grid_shape, rows in product([(2,), (3,), (2, 2), (2, 3), (3, 2)], range(8)):
        axes = list(range(len(grid_shape)))
        check_moves(moved_between(Grid(grid_shape), [axes], [[]], (rows, 3)))
        check_moves(moved_between(Grid(grid_shape), [axes], [[], axes], (rows, 3)))


def test_arrays_without_dimensions_or_cells():
    for shape in [(), (0,), (3, 0)]:
        choices = all_split_axes(2, len(shape))
        for source, target in product(choices, repeat=2):
            assert check_moves(moved_between(Grid((2, 3)), source, target, shape)) == {}
    disjoint = [Layout(Sharding(Grid((2,), ranks=ranks), []), ()) for ranks in [(1, 0), (2, 3)]]
    assert check_moves(Redistribution(*disjoint)) in [{(1, 2): 1, (0, 3): 1}, {(0, 2): 1, (1, 3): 1}]


def test_values():
    grid = Grid((2, 2))
    moved = moved_between(grid, [[0], [1]], [[1], [0]], (4, 4))
    assert moved == moved_between(grid, [[0], [1]], [[1], [0]], (4, 4))
    assert moved != moved_between(grid, [[0], [1]], [[1], [0]], (4, 4), itemsize=4)
    assert hash(moved) == hash(moved_between(grid, [[0], [1]], [[1], [0]], (4, 4)))


def test_refusals():
    grid = Grid((2, 2))
    one = Layout(Sharding(grid, [[0]]), (4, 4))
    with pytest.raises(ShapeError, match=r"\(4, 4\) to \(4, 5\); they must be equal"):
        Redistribution(one, Layout(Sharding(grid, [[0]]), (4, 5)))
    sums, largest = (
        Layout(Sharding(grid, [[0]], partial_axes=[1], partial_kind=kind), (4, 4)) for kind in ("sum", "max")
    )
    with pytest.raises(ReductionError, match="partial sum to partial max"):
        Redistribution(sums, largest)
    with pytest.raises(DeviceError):
        Redistribution(one, Layout(Sharding(Grid((4,)), []), (4, 4))).receives((4,))


# -- which copy serves -------------------------------------------------------------------------------------------------


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
        monkeypatch.setattr(Cut, name, counting(getattr(Cut, name)))
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
