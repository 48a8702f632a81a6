"""HaloExchange.accumulate: the adjoint of update, exact on integers, of the same bits in every run."""

import numpy as np
import pytest
from hypothesis import settings
from support.halo.accumulate_oracle import accumulated, check_any, drawn
from support.halo.any_plan import GRIDS
from support.halo.exchange_oracle import MEMORY, PATHS, dawdle, in_memory, own_random
from support.same_bytes import same_bytes

import spmd_grid as sg


@pytest.mark.one_in(3)
@pytest.mark.parametrize(["grid_shape", "split_axes"], GRIDS, ids=str)
def test_any_plan(spmd, grid_shape, split_axes, path):
    count = max(1, settings().max_examples // 40)
    spmd(int(np.prod(grid_shape)), check_any, grid_shape, split_axes, count, 21, path)


@pytest.mark.full
@pytest.mark.parametrize(["grid_shape", "split_axes"], GRIDS, ids=str)
def test_many_plans(spmd, grid_shape, split_axes, path):
    spmd(int(np.prod(grid_shape)), check_any, grid_shape, split_axes, settings().max_examples // 20, 22, path)


def test_any_plan_in_any_order(in_any_order, path):
    in_any_order(6, check_any, (2, 3), [[0], [1]], 2, 23, path, True)
    in_any_order(3, check_any, (3,), [[0]], 2, 24, path, True)


def test_what_no_rule_copies_stays(spmd, path):
    """Constants, and cells that functions set, are nobody's copies."""

    def one(local, outside):
        raise AssertionError("accumulate calls no functions")

    spmd(4, check_any, (2, 2), [[0], [1]], 6, 25, path, False, ["leave", "edge", 3, -2.0])

    def body():
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[2, 1])
        with sg.HaloExchange(grid, sharding, (4,), "i8", boundary=one, path=path) as halo:
            y = np.arange(5) + 10
            halo.accumulate(y)
        return y.tolist()

    # [- - a b c] and [a' b' c d -]: c is a copy of c, a' and b' of a and b
    assert spmd(2, body) == [[10, 11, 12 + 10, 13 + 11, 0], [0, 0, 12 + 14, 13, 14]]


def test_by_hand(spmd):
    def body():
        grid = sg.init_grid((3,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (6,), "i8", boundary=["edge"]) as halo:
            y = np.array([1, 10, 100, 1000]) * (grid.rank + 1)
            halo.accumulate(y)
        return y.tolist()

    assert spmd(3, body) == [[0, 10 + 1, 100 + 2, 0], [0, 20 + 1000, 200 + 3, 0], [0, 30 + 2000, 300 + 3000, 0]]


def test_own_cells_are_added_in_their_place(spmd, path):
    """Of two contributions to a cell of a device, its own is the first on rank 0 and the last on rank 1: in the other
    order the sums would be 1."""

    def body():
        grid = sg.init_grid((2,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (2,), "f8", boundary="edge", path=path) as halo:
            sign = 1 - 2 * grid.rank
            y = np.array([sign * 2.0**53, 1.0, sign * 2.0**53])
            halo.accumulate(y)
        return y.tolist()

    assert spmd(2, body) == [[0, 0, 0], [0, 0, 0]]


def test_an_error_of_numpys_on_one_process(in_any_order, path):
    """It is raised there alone; the others get their sums, and the plan remains usable on all."""

    def body():
        grid = sg.init_grid((3,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (6,), "f8", path=path) as halo:
            for step in range(3):
                y = np.full(4, 1.5e308)
                if grid.rank == 1:
                    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
                        halo.accumulate(y)
                else:
                    with np.errstate(over="ignore"):
                        halo.accumulate(y)
                    assert np.isinf(y).any()
                y = drawn(step, grid.coords, (4,), "f8")
                halo.accumulate(y)
                assert np.array_equal(y, accumulated(halo.layout, grid.coords, step, "f8"))

    in_any_order(3, body)


# -- elements --------------------------------------------------------------------------------------------------

DTYPES = ["?", "i1", "u2", ">i4", "i8", "f2", "f4", ">f8", "c8", "c16"]


def test_dtypes(spmd, path):
    """Each by itself, and all of them as fields of one plan, in memory of all kinds."""

    def body():
        grid = sg.init_grid((2, 2))
        sharding = sg.Sharding(grid, [[0], [1]], halo_sizes=[1, 2, 2, 1])
        plan = {"periodic": [True, False], "boundary": ["leave", "edge"]}
        kinds = list(MEMORY)
        for dtypes in [*([dtype] for dtype in DTYPES), DTYPES]:
            with sg.HaloExchange(grid, sharding, (4, 5), dtypes, path=path, **plan) as halo:
                shape = halo.layout.local_shape(grid.coords)
                for seed in range(2):
                    fields = [
                        in_memory(drawn(seed, grid.coords, shape, dtype), kinds[(f + grid.rank) % len(kinds)], grid)
                        for f, dtype in enumerate(dtypes)
                    ]
                    halo.accumulate(*fields)
                    for field, dtype in zip(fields, dtypes, strict=True):
                        wanted = accumulated(halo.layout, grid.coords, seed, dtype, **plan)
                        assert np.array_equal(field, wanted), (dtype, field, wanted)

    spmd(4, body)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_the_same_bits_in_every_run(spmd, request, dtype):
    """Whatever the order in which ranks come, and whatever the path."""

    def body(path):
        grid = sg.init_grid((2, 3))
        rng = own_random(9, grid)
        sharding = sg.Sharding(grid, [[0], [1]], halo_sizes=[2, 3, 3, 2])
        chance = np.random.default_rng([7, grid.rank])
        bits = []
        with sg.HaloExchange(grid, sharding, (5, 7), dtype, [True, False], boundary="reflect", path=path) as halo:
            for _ in range(4):
                shape = halo.layout.local_shape(grid.coords)
                u = (chance.normal(size=shape) * 10.0 ** chance.integers(-6, 6, shape)).astype(dtype)
                dawdle(rng)
                halo.accumulate(u)
                bits.append(u.tobytes())
        return bits

    seeds = [None, None] if request.config.getoption("with_mpi", default=False) else [None, 1, 2]
    first = spmd(6, body, PATHS[0])
    for path in PATHS:
        for seed in seeds:
            same = spmd(6, body, path, seed=seed) == first
            assert same, (path, seed)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", ["M8[s]", "m8[s]", "S3", "U2", "V4", [("a", "i2"), ("b", "f8")]], ids=str)
def test_what_cannot_be_added(spmd, dtype, path):
    """Refused by all; an update goes on."""

    def body():
        grid = sg.init_grid((3,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (6,), dtype, path=path) as halo:
            u = np.arange(1, 5).astype("i1").astype(dtype) if dtype != "V4" else np.zeros(4, dtype)
            before = u.copy()
            for _ in range(2):
                with pytest.raises(sg.DTypeError, match="added"):
                    halo.accumulate(u)
                assert same_bytes(u, before)
            halo.update(u)
            assert same_bytes(u[1:-1], before[1:-1])

    spmd(3, body)


# -- beside other things ---------------------------------------------------------------------------------------


def test_by_turns_with_updates(in_any_order, path):
    """Sums of weights at nodes that several ranks share: update what was accumulated, again and again."""

    def body():
        grid = sg.init_grid((4,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        rng = own_random(4, grid)
        with sg.HaloExchange(grid, sharding, (8,), "i8", True, path=path) as halo:
            u = sg.zeros((8,), sharding, grid, "i8")
            total = np.zeros(8, int)
            for step in range(12):
                u.local[...] = 0
                for cell in range(4):
                    u.local[cell] = weight = step + grid.rank + cell
                    assert weight >= 0
                for rank in range(4):
                    for cell in range(4):
                        total[(2 * rank + cell - 1) % 8] += step + rank + cell
                dawdle(rng)
                halo.accumulate(u)
                halo.update(u, only_dirty=True)  # accumulate has marked it
                assert u.local.tolist() == [total[(2 * grid.rank + cell - 1) % 8] for cell in range(4)]
                total[:] = 0

    in_any_order(4, body)


def test_refusals(in_any_order, path):
    """As of updates; what was there before stays."""

    def body():
        grid = sg.init_grid((3,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (6,), "i8", path=path) as halo:
            for culprit in 0, 1, 2, 1:
                y = drawn(culprit, grid.coords, (4,))
                read_only = drawn(1, grid.coords, (4,))
                read_only.flags.writeable = False
                before = y.copy()
                if abs(grid.rank - culprit) <= 1:
                    with pytest.raises(sg.OutputError, match=f"read-only.*rank {culprit} "):
                        halo.accumulate(read_only if grid.rank == culprit else y)
                    assert np.array_equal(y, before)
                else:
                    halo.accumulate(y)
                    assert y[0] == 0 or grid.rank == 0
                y = drawn(culprit, grid.coords, (4,))
                halo.accumulate(y)
                assert np.array_equal(y, accumulated(halo.layout, grid.coords, culprit))
            halo.start(y)
            with pytest.raises(sg.RequestError, match="under way"):
                halo.accumulate(y)
            halo.wait()
        with pytest.raises(sg.RequestError, match="closed"):
            halo.accumulate(y)

    in_any_order(3, body)
