"""Shardings: equality of spellings, shapes, refusals."""

import pickle

import numpy as np
import pytest

from spmd_grid.errors import AxisError, DeviceError, GridError, ReductionError, ShardingError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding

GRID = Grid((2, 3), axis_names=("x", "y"))


class WithProcess:
    """Stands for a ProcessGrid: all that a sharding needs of it is its pure grid."""

    grid = GRID


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Sharding(GRID, [["x"], ["y"]]), Sharding(GRID, ((0,), (1,)))),
        (Sharding(GRID, [[0], [], []]), Sharding(GRID, [[0]])),
        (Sharding(GRID, [[], []]), Sharding(GRID, [])),
        (Sharding(GRID, [], blocks="balanced"), Sharding(GRID, [])),
        (Sharding(GRID, [[0]], halo_sizes=[0, 0]), Sharding(GRID, [[0]])),
        (Sharding(GRID, [[0]], halo_sizes=[]), Sharding(GRID, [[0]])),
        (Sharding(GRID, [[0], [1]], halo_sizes=[1, 2, 3, 4]), Sharding(GRID, [[0], [1]], halo_sizes=[(1, 2), (3, 4)])),
        (Sharding(GRID, [[0]], halo_sizes=np.array([[1, 2]])), Sharding(GRID, [[0]], halo_sizes=(1, 2))),
        (
            Sharding(GRID, [[0], [1]], sharded_dims_offsets=[0, 2, 5, 0, 1, 1, 4]),
            Sharding(GRID, [[0], [1]], sharded_dims_offsets=[[0, 2, 5], [0, 1, 1, 4]], blocks="balanced"),
        ),
        (Sharding(GRID, [], partial_axes=["y", "x"]), Sharding(GRID, [], partial_axes=(0, 1), partial_kind="sum")),
        (Sharding(GRID, [[0]], partial_kind="max"), Sharding(GRID, [[0]])),
        (Sharding(WithProcess(), [[0]]), Sharding(GRID, [[0]])),
    ],
)
def test_spellings_that_mean_the_same_are_equal(a, b):
    assert a == b and hash(a) == hash(b) and a.grid is GRID and pickle.loads(pickle.dumps(a)) == b


def test_what_differs_is_unequal():
    variants = [
        Sharding(GRID, [[0]]),
        Sharding(GRID, [[], [0]]),
        Sharding(GRID, [[0, 1]]),
        Sharding(GRID, [[1, 0]]),
        Sharding(GRID, [[0]], blocks="balanced"),
        Sharding(GRID, [[0]], halo_sizes=[1, 0]),
        Sharding(GRID, [[0]], sharded_dims_offsets=[0, 2, 4]),
        Sharding(GRID, [[0]], partial_axes=[1]),
        Sharding(GRID, [[0]], partial_axes=[1], partial_kind="max"),
        Sharding(Grid((2, 3)), [[0]]),
    ]
    assert len(set(variants)) == len(variants)


def test_questions():
    s = Sharding(Grid((2, 3, 4, 5)), [[1], [], [0]], halo_sizes=[1, 2, 3, 0], partial_axes=[3], partial_kind="min")
    assert (s.sharded_dims, s.replicated_axes, s.partial_axes, s.partial_kind) == ((0, 2), (2,), (3,), "min")
    assert [s.axes_of(dim) for dim in range(5)] == [(1,), (), (0,), (), ()]
    assert [s.halo_of(dim) for dim in range(5)] == [(1, 2), (0, 0), (3, 0), (0, 0), (0, 0)]
    assert s.offsets_of(0) is None
    s = Sharding(GRID, [[], [1]], sharded_dims_offsets=[0, 1, 1, 4])
    assert (s.offsets_of(0), s.offsets_of(1), s.offsets_of(2)) == (None, (0, 1, 1, 4), None)


@pytest.mark.parametrize(
    ("split_axes", "options", "coords", "core", "local"),
    [
        ([[0, 1]], {}, (0, 2), (0, 4), (0, 4)),
        ([[0, 1]], {"blocks": "balanced"}, (0, 2), (1, 4), (1, 4)),
        ([[1, 0]], {}, (1, 2), (0, 4), (0, 4)),
        ([[], [1]], {"halo_sizes": [2, 1]}, (1, 2), (7, 0), (7, 3)),
        ([[0], [1]], {"halo_sizes": [0, 0, 1, 1]}, [1, 0], (3, 2), (3, 4)),
        ([[0]], {"sharded_dims_offsets": [0, 1, 7], "halo_sizes": [1, 0]}, np.array([1, 0]), (6, 4), (7, 4)),
        ([], {"partial_axes": [0]}, (1, 1), (7, 4), (7, 4)),
    ],
)
def test_shapes_of_7_by_4(split_axes, options, coords, core, local):
    s = Sharding(GRID, split_axes, **options)
    assert s.core_shape((7, 4), coords) == core
    assert s.local_shape((7, 4), coords) == s.shard_shape((7, 4), coords) == local
    assert s.core_slices((7, 4), coords) == s.shard_slices((7, 4), coords)
    assert np.empty((7, 4))[s.core_slices((7, 4), coords)].shape == core


def test_a_scalar_is_everywhere():
    assert Sharding(GRID, []).shard_shape((), (1, 2)) == ()


def test_prints():
    assert str(Sharding(Grid((2, 3)), [[0], [1]])) == "[[0],[1]] on 2x3"
    assert str(Sharding(GRID, [[], ["x", "y"]], blocks="balanced")) == "[[],[x, y]] on 2x3 (x, y), balanced blocks"
    full = Sharding(
        GRID, [["x"]], halo_sizes=[1, 2], sharded_dims_offsets=[0, 3, 4], partial_axes=["y"], partial_kind="max"
    )
    assert str(full) == "[[x]] on 2x3 (x, y), halo [(1, 2)], offsets [[0, 3, 4]], partial max over [y]"
    assert repr(Sharding(Grid((2, 3)), [[0], [1]])) == "Sharding(Grid((2, 3)), [[0],[1]])"
    for s in (full, Sharding(GRID, []), Sharding(GRID, [[1, 0]], blocks="balanced")):
        assert eval(repr(s)) == s


def test_a_million_devices_cost_nothing():
    s = Sharding(Grid((1024, 1024)), [[0, 1], []])
    assert s.shard_slices((2**30, 3), (1023, 1022)) == (slice(2**30 - 2048, 2**30 - 1024), slice(0, 3))


@pytest.mark.parametrize(
    ("error", "split_axes", "options", "message"),
    [
        (AxisError, [[0, 0]], {}, r"split_axes\[0\] is \[0, 0\]; an axis must not be listed twice"),
        (AxisError, [[0], ["x"]], {}, "use grid axis 0 twice"),
        (AxisError, [[0]], {"partial_axes": [0]}, r"partial_axes \[0\] use grid axis 0 twice"),
        (AxisError, [[-1]], {}, "go from 0 to 1"),
        (AxisError, [[2]], {}, "go from 0 to 1"),
        (AxisError, [["z"]], {}, "no axis 'z'"),
        (AxisError, [0, 1], {}, r"split_axes\[0\] is 0; it must be a list"),
        (AxisError, "xy", {}, "must be a list per tensor dimension"),
        (AxisError, ["x"], {}, r"split_axes\[0\] is 'x'; it must be a list"),
        (AxisError, [[0]], {"partial_axes": 1}, "partial_axes is 1; it must be a list"),
        (ShardingError, [[0]], {"blocks": "floor"}, "blocks is 'floor'"),
        (ShardingError, [[0], [1]], {"halo_sizes": [1, 2]}, "has 2 entries; it must have 4"),
        (ShardingError, [[0], [1]], {"halo_sizes": [[1, 2]]}, "for each of the 2 sharded dimensions"),
        (ShardingError, [[0]], {"halo_sizes": [[1, 2, 3]]}, "for each of the 1 sharded dimensions"),
        (ShardingError, [[0]], {"halo_sizes": [1, -1]}, "integers from 0"),
        (ShardingError, [[0]], {"halo_sizes": [1, 1.5]}, "integers from 0"),
        (ShardingError, [[0]], {"halo_sizes": 1}, "integers from 0"),
        (ShardingError, [], {"halo_sizes": [1, 1]}, "has 2 entries; it must have 0"),
        (ShardingError, [[0]], {"sharded_dims_offsets": [0, 4]}, "has 2 entries; it must have 3"),
        (ShardingError, [[0]], {"sharded_dims_offsets": [[0, 4]]}, "has 2 entries; it must have 3"),
        (ShardingError, [[0]], {"sharded_dims_offsets": [0, 4, 8, 12]}, "has 4 entries; it must have 3"),
        (ShardingError, [[0], [1]], {"sharded_dims_offsets": [[0, 1, 2]]}, "for each of the 2 sharded dimensions"),
        (ShardingError, [[0]], {"sharded_dims_offsets": [1, 4, 6]}, "begins with 1"),
        (ShardingError, [[0]], {"sharded_dims_offsets": [0, 4, 3]}, "decreases from 4 to 3"),
        (ShardingError, [[0]], {"sharded_dims_offsets": 3}, "the start of every shard"),
        (ReductionError, [], {"partial_axes": [0], "partial_kind": "average"}, "'average', which has no identity"),
        (ReductionError, [], {"partial_axes": [0], "partial_kind": np.add}, "'generic', which has no identity"),
        (ReductionError, [], {"partial_kind": "total"}, "'total'; it must be one of"),
    ],
)
def test_refused_shardings(error, split_axes, options, message):
    with pytest.raises(error, match=message):
        Sharding(GRID, split_axes, **options)


@pytest.mark.parametrize("method", ["local_shape", "shard_shape", "core_shape", "core_slices", "shard_slices"])
@pytest.mark.parametrize(
    ("sharding", "global_shape", "message"),
    [
        (Sharding(GRID, [[], [1]]), (4,), "splits dimension 1, but global_shape .* has 1 dimensions"),
        (Sharding(GRID, [[0]]), (-1,), "integers from 0"),
        (Sharding(GRID, [[0]]), (4.0,), "integers from 0"),
        (Sharding(GRID, [[0]]), 4, "integers from 0"),
        (Sharding(GRID, [[0]], sharded_dims_offsets=[0, 2, 5]), (6,), "end at 5; they must cover its extent 6"),
    ],
)
def test_refused_global_shapes(method, sharding, global_shape, message):
    with pytest.raises(ShardingError, match=message):
        getattr(sharding, method)(global_shape, (0, 0))


def test_refused_grid():
    with pytest.raises(GridError, match="needs a Grid or a ProcessGrid"):
        Sharding((2, 3), [[0]])


def test_refused_coords():
    with pytest.raises(DeviceError, match="has 2 integer coordinates"):
        Sharding(GRID, [[0]]).shard_shape((4,), (2, 0))
