"""Redistributions against a global numpy array: any layout to any other, exhaustively on small grids."""

import math
import random
from itertools import product

import pytest
from support.reshard.pairs import GRIDS, SOME_GRIDS, how_many, moved_between, pairs_of, some_shape
from support.reshard.reshard_oracle import all_split_axes, check_moves, check_partial_moves, random_sharding, side

from spmd_grid.errors import DeviceError, ReductionError, ShapeError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.geometry import replicas
from spmd_grid.reshard.geometry.messages import Redistribution


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
