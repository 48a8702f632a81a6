"""Exchanges in chunks, run: the same bits as whole exchanges, and no more memory than they say."""

import math
import random
import tracemalloc
from functools import reduce
from typing import NamedTuple

import numpy as np
import pytest
from support.reshard.processes import coords_of, ends_of, most_arrays
from support.reshard.reshard_oracle import random_sharding
from support.reshard.reshard_run_oracle import check_result, contribution, given, local_in, random_case
from support.same_bytes import same_bytes

import spmd_grid as sg
from spmd_grid.grid.layout import Layout
from spmd_grid.reduction_kind import KINDS
from spmd_grid.reshard.planner.chunking import contributions
from spmd_grid.reshard.volume.totals import most_local


@pytest.mark.parametrize("path", ["auto", "message"])
def test_chunks_move_the_same(spmd, path):
    """Less memory than messages need: slices go one after the other, on uneven, empty and halo'd blocks."""

    def body(runs):
        grid = sg.init_grid((2, 2))
        for case, plan in runs:
            source, target = case.shardings(grid)
            result = sg.run_plan(plan, given(case, source, grid.coords), grid)
            check_result(case, source, target, grid.coords, result, grid)

    rng, runs = random.Random(6), []
    for case in [random_case(rng, (2, 2)) for _ in range(60)]:
        source, target = case.shardings(sg.Grid((2, 2)))
        if np.prod(case.shape) < 100:  # so few cells that messages need no more than their heads
            continue
        limit = most_arrays(source, target, case.shape) * np.dtype(case.dtype).itemsize + 600
        whole = sg.plan_reshard(source, target, case.shape, case.dtype, "direct")
        plan = sg.plan_reshard(source, target, case.shape, case.dtype, "direct", memory_limit=limit)
        assert plan.totals().received == whole.totals().received or plan.chosen.startswith("one exchange")
        runs.append((case, plan))
    assert max(plan.chunks for _, plan in runs) > 5
    with sg.forced_path(path):
        spmd(4, body, runs)


class Folding(NamedTuple):
    """A partial value, whose contributions are ``parts`` by number, and where it is to be."""

    source: sg.Sharding
    target: sg.Sharding
    parts: np.ndarray

    @property
    def shape(self) -> tuple:
        return self.parts.shape[1:]

    @property
    def kind(self) -> str:
        return self.source.partial_kind

    def plan(self, limit=None) -> sg.Plan:
        return sg.plan_reshard(self.source, self.target, self.shape, self.parts.dtype, "direct", memory_limit=limit)

    def given(self, process) -> np.ndarray | None:
        coords = coords_of(self.source.grid, process)
        if coords is None:
            return None
        return local_in(Layout(self.source, self.shape), coords, self.parts[contribution(self.source, coords)], False)

    def wanted(self, process) -> np.ndarray:
        """The array that a device of a target without partial axes must hold, bit by bit."""
        whole = reduce(KINDS[self.kind].combine, self.parts).astype(self.parts.dtype)
        return local_in(Layout(self.target, self.shape), coords_of(self.target.grid, process), whole, True)


KINDS_AND_DTYPES = [
    ("sum", "f8"), ("sum", "f4"), ("sum", "c16"), ("sum", "i2"), ("sum", "?"), ("max", "f8"), ("max", "i4"),
    ("max", "?"), ("min", "f4"), ("product", "f8"), ("product", "u1"), ("bitwise_xor", "i8"), ("sum", ">f8"),
]  # fmt: skip


def random_values(rng, shape, dtype) -> np.ndarray:
    """Of sizes so different that the order of a sum shows."""
    dtype, numbers = np.dtype(dtype), np.random.default_rng(rng.randrange(1 << 30))
    if dtype.kind in "fc":
        values = numbers.standard_normal(shape) * 10.0 ** numbers.integers(-3, 4, shape)
        values = values + 1j * numbers.standard_normal(shape) if dtype.kind == "c" else values
        return values.astype(dtype)
    return numbers.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)


def random_folding(rng, source_grid, target_grid, target_partial) -> Folding:
    kind, dtype = rng.choice(KINDS_AND_DTYPES)
    shape = tuple(rng.choice([1, 5, 12, 17]) for _ in range(rng.choice([1, 2, 2, 3])))
    sides = []
    for grid, partial in ((source_grid, True), (target_grid, target_partial)):
        while True:
            side = random_sharding(rng, grid, shape, partial)
            if not partial or side.partial_axes:
                break
        sides.append(
            sg.Sharding(
                grid,
                side.split_axes,
                blocks=side.blocks,
                halo_sizes=side.halo_sizes,
                sharded_dims_offsets=side.sharded_dims_offsets,
                partial_axes=side.partial_axes,
                partial_kind=kind,
            )
        )
    n = math.prod(source_grid.shape[axis] for axis in sides[0].partial_axes)
    return Folding(*sides, random_values(rng, (n, *shape), dtype))


def limits_of(folding) -> list[int]:
    """From almost enough for the whole exchange down to what cannot be."""
    arrays = most_arrays(folding.source, folding.target, folding.shape) * folding.parts.itemsize
    peak = folding.plan().totals().peak
    return [peak - 1, *[arrays + (peak - arrays) // part for part in (2, 3, 5, 10, 30)], arrays]


def accepted(folding) -> list:
    """The plans in chunks that fit the memory limits."""
    plans = []
    for limit in limits_of(folding):
        try:
            plan = folding.plan(limit)
        except sg.ShardingError as error:
            assert f"memory_limit is {limit}" in str(error)
            continue
        grid = folding.target.grid
        assert plan.chunks > 1 or not plan.totals().most_received
        assert all(plan.peak_bytes(grid.multi_index(device)) <= limit for device in range(grid.size))
        if plan.chunks > 1:
            plans.append(plan)
    return plans


GRIDS = {
    "3": (sg.Grid((3,)), sg.Grid((3,))),
    "2x3": (sg.Grid((2, 3)), sg.Grid((2, 3))),
    "2x2": (sg.Grid((2, 2)), sg.Grid((2, 2))),
    "2x3 to 3, others": (sg.Grid((2, 3)), sg.Grid((3,), ranks=(6, 0, 4))),
}


@pytest.mark.parametrize(
    ("grids", "to_partial"),
    [*[(grids, False) for grids in GRIDS], *[(grids, True) for grids in GRIDS if grids != "3"]],
    ids=lambda value: {False: "combined", True: "still partial"}.get(value, value),
)
@pytest.mark.parametrize("runs_of_each", [8, pytest.param(120, marks=pytest.mark.full)], ids=["some", "many"])
def test_partial_values_in_chunks(spmd, grids, to_partial, runs_of_each):
    """The same bits as one exchange without a limit gives, and as numpy does, contribution by contribution."""
    source_grid, target_grid = GRIDS[grids]
    n_ranks = 1 + max(max(grid.ranks or [grid.size - 1]) for grid in (source_grid, target_grid))

    def body(runs):
        grid = sg.init_grid(source_grid.shape, ranks=range(source_grid.size))
        me = grid.rank
        for folding, plans in runs:
            local = folding.given(me)
            whole = sg.run_plan(folding.plan(), local, grid)
            for plan in plans:
                for _ in range(2):
                    result = sg.run_plan(plan, local, grid)
                    assert (result is None) == (whole is None)
                    assert result is None or same_bytes(result, whole), (me, plan)
            if result is not None and not folding.target.partial_axes:
                assert same_bytes(result, folding.wanted(me)), (me, plans)

    rng, runs = random.Random(grids), []
    while len(runs) < runs_of_each:
        folding = random_folding(rng, source_grid, target_grid, to_partial)
        if plans := accepted(folding):
            runs.append((folding, plans))
    combined = sum(any(longest_stack(move) > 1 for move in plans[0].moves) for _, plans in runs)
    assert combined > runs_of_each // (12 if to_partial else 3)
    spmd(n_ranks, body, runs)


def longest_stack(move) -> int:
    """The most contributions that a device combines."""
    return max(contributions(move, target)[0] for _, target in ends_of(move) if target is not None)


def test_a_partial_value_of_another_kind(spmd):
    """Two steps, as no exchange combines two kinds: the array between them counts."""

    def body(plan, values):
        grid = sg.init_grid((2, 2))
        local = values[grid.coords[0]][plan.source.sharding.shard_slices((40, 30), grid.coords)]
        result = sg.run_plan(plan, local, grid)
        assert np.array_equal(sg.all_reduce(result, grid, [1], "max"), values.sum(axis=0))

    grid, values = sg.Grid((2, 2)), np.random.default_rng(3).standard_normal((2, 40, 30))
    source = sg.Sharding(grid, [[], [1]], partial_axes=[0])
    target = sg.Sharding(grid, [], partial_axes=[1], partial_kind="max")
    whole = sg.plan_reshard(source, target, (40, 30), "f8", "direct")
    arrays = (40 * 15 + 40 * 30 + most_local(whole.steps[0].target)) * 8
    plan = sg.plan_reshard(source, target, (40, 30), "f8", "direct", memory_limit=arrays + 500)
    assert plan.chunks > 1 and len(plan.steps) == 2 and plan.chosen.startswith("direct")
    spmd(4, body, plan, values)
    with pytest.raises(sg.ShardingError, match="memory_limit"):
        sg.plan_reshard(source, target, (40, 30), "f8", memory_limit=arrays)


def test_without_room_in_between_one_exchange_combines(spmd):
    """The direct way to an all_reduce holds the combined blocks; one exchange does with the arrays of both sides."""

    def body(plans, values):
        grid = sg.init_grid((4,))
        for plan in plans:
            result = sg.run_plan(plan, values[grid.rank], grid)
            assert same_bytes(result, ((values[0] + values[1]) + values[2]) + values[3])

    grid, values = sg.Grid((4,)), np.random.default_rng(5).standard_normal((4, 50, 40))
    source, target = sg.Sharding(grid, [], partial_axes=[0]), sg.Sharding(grid, [])
    arrays, block = 2 * 50 * 40 * 8, 50 * 10 * 8  # of a quarter, combined
    plans = [
        sg.plan_reshard(source, target, (50, 40), "f8", memory_limit=arrays + room)
        for room in (5 * block, block + 800, 800)
    ]
    assert [plan.chosen.split(",")[0] for plan in plans] == ["direct", "direct", "one exchange"]
    assert all(plan.chunks > 1 for plan in plans)
    spmd(4, body, plans, values)


def test_the_limit_is_kept_or_refused(spmd):
    grid = sg.Grid((2, 2))
    source, target = sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[1], [0]])
    shape = (1000, 1000)
    arrays = 2 * 500 * 500 * 8
    free = sg.plan_reshard(source, target, shape, "f8", "direct")
    assert free.chunks == 1 and free.totals().peak == arrays + 3 * 500 * 500 * 8
    for limit in (free.totals().peak, free.totals().peak - 1, arrays + 100_000, arrays + 2_000):
        plan = sg.plan_reshard(source, target, shape, "f8", memory_limit=limit)
        assert plan.totals().peak <= limit
        assert all(plan.peak_bytes(grid.multi_index(device)) <= limit for device in range(4))
        assert (plan.chunks > 1) == (limit < free.totals().peak)
    for limit in (arrays, 10, 0):
        with pytest.raises(sg.ShardingError, match="memory_limit"):
            sg.plan_reshard(source, target, shape, "f8", memory_limit=limit)

    def body():
        grid = sg.init_grid((2, 2))
        values = np.arange(1e6).reshape(shape)
        local = values[source.shard_slices(shape, grid.coords)].copy()
        plan = sg.plan_reshard(source, target, shape, "f8", memory_limit=arrays + 100_000)
        assert plan.chunks > 10
        for out in (None, np.empty((500, 500)), local):
            assert np.array_equal(sg.run_plan(plan, local, grid, out), values[target.shard_slices(shape, grid.coords)])

    spmd(4, body)


def test_what_needs_no_exchange_still_needs_its_arrays():
    grid = sg.Grid((2,))
    rows = sg.Sharding(grid, [[0]])
    assert sg.plan_reshard(rows, rows, (4, 3), "f8", memory_limit=2 * 6 * 8).steps == ()
    with pytest.raises(sg.ShardingError, match="the arrays alone take up to 96"):
        sg.plan_reshard(rows, rows, (4, 3), "f8", memory_limit=2 * 6 * 8 - 1)


def test_a_refused_limit_is_told_on_all_before_anything_moves(spmd):
    def body():
        grid = sg.init_grid((4,))
        source, target = sg.Sharding(grid, [], partial_axes=[0]), sg.Sharding(grid, [[0]])
        local, out = np.full((8, 5), grid.rank + 1.0), np.full((2, 5), -1.0)
        texts = []
        for limit in (0, 8 * 5 * 8 + 2 * 5 * 8):
            with pytest.raises(sg.ShardingError, match="memory_limit") as caught:
                sg.reshard(local, source, target, grid, (8, 5), out, memory_limit=limit)
            texts.append(str(caught.value))
        assert (out == -1).all() and (local == grid.rank + 1).all()
        sg.reshard(local, source, target, grid, (8, 5), out, memory_limit=8 * 5 * 8 + 2 * 5 * 8 + 300)
        assert (out == 10).all()
        return texts

    results = spmd(4, body)
    assert all(texts == results[0] for texts in results)


def test_memory_in_use():
    """Two simulated ranks need, besides their arrays, a stack of all contributions, or of two chunks."""
    shape, n_bytes = (1 << 10, 1 << 10), 8 << 20

    def body(limit):
        grid = sg.init_grid((2,))
        source, target = sg.Sharding(grid, [], partial_axes=[0]), sg.Sharding(grid, [[0]])
        plan = sg.plan_reshard(source, target, shape, "f8", "direct", memory_limit=limit)
        local, out = np.full(shape, 1.0), np.empty((1 << 9, 1 << 10))
        sg.all_reduce(np.zeros(1), grid, [0], "sum")
        if grid.rank == 0:
            tracemalloc.start()
        sg.all_reduce(np.zeros(1), grid, [0], "sum")
        for _ in range(2):  # a stack is kept for the next run
            sg.run_plan(plan, local, grid, out)
        sg.all_reduce(np.zeros(1), grid, [0], "sum")
        if grid.rank == 0:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return peak
        return 0

    arrays = n_bytes + n_bytes // 2
    whole, small = (max(sg.run_spmd(body, limit, ranks=2)) for limit in (None, arrays + (1 << 20)))
    assert whole > n_bytes and small < 3 << 20, (whole, small)
