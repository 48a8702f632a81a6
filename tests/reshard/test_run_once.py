"""Requests that are made once bind no plan: all first runs, second and third ones give numpy's cells."""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.errors import PlanError
from spmd_grid.reshard.executor import first_run, prepared_reshard
from spmd_grid.reshard.executor.bound_plan import BoundPlan

SHAPE = (7, 10)
VALUES = np.arange(70.0).reshape(SHAPE)


def pairs(grid):
    """Sources and targets on 2 x 2 devices: uneven, with empty blocks, halos, replicas, and swapped axes."""
    blocks = sg.Sharding(grid, [[0], [1]])
    halos = sg.Sharding(grid, [[1], [0]], halo_sizes=[1, 2, 2, 0])
    offsets = sg.Sharding(grid, [[], [1, 0]], sharded_dims_offsets=[[0, 0, 3, 3, 10]])
    rows, columns, whole = (
        sg.Sharding(grid, [[1]], blocks="balanced"),
        sg.Sharding(grid, [[], [0]]),
        sg.Sharding(grid, []),
    )
    return [(blocks, halos), (halos, offsets), (offsets, rows), (rows, columns), (columns, whole), (whole, blocks)]


@pytest.mark.parametrize("dtype", ["f8", "i2", "c8", [("a", "i4"), ("b", "f8", 2)]])
def test_each_run_of_a_request(spmd, dtype):
    def body():
        grid = sg.init_grid((2, 2))
        values = VALUES.astype(dtype) if not isinstance(dtype, list) else np.zeros(SHAPE, dtype)
        if isinstance(dtype, list):
            values["a"], values["b"] = VALUES, VALUES[..., None] + [0.25, 0.5]
        for source, target in pairs(grid):
            a = sg.from_global(values, source, grid)
            want = sg.from_global(values, target, grid).local
            for _ in range(3):
                assert a.reshard(target).local.tobytes() == want.tobytes()
            out = sg.full(SHAPE, target, grid, dtype=values.dtype, fill_value=1)
            a.reshard(target, out=out)
            assert out.local.tobytes() == want.tobytes()

    spmd(4, body)


def test_arrays_that_lie_anywhere(spmd):
    """In the arena or outside, contiguous or not, each rank in its own way; and a result in the place of the source."""

    def body():
        grid = sg.init_grid((3,))
        n = 60
        values = np.arange(2.0 * n * n).reshape(2 * n, n)
        for way in range(4):
            source = sg.Sharding(grid, [[0]], sharded_dims_offsets=[[0, 40, 80, 2 * n]])
            target = sg.Sharding(grid, [[0]], sharded_dims_offsets=[[0, 41 + way, 81 + way, 2 * n]])
            local = values[source.shard_slices(values.shape, grid.coords)]
            if (way + grid.rank) % 4 == 1:
                local = np.asfortranarray(local)
            elif (way + grid.rank) % 4 == 2:
                local = np.repeat(local, 2, axis=1)[:, ::2]
            elif way == 3:
                mine = grid.allocate(local.shape, local.dtype)
                mine[...] = local
                local = mine
            for _ in range(2):
                found = sg.reshard(local, source, target, grid, values.shape)
                assert np.array_equal(found, values[target.shard_slices(values.shape, grid.coords)])
        turned = sg.Sharding(grid, [[0]], sharded_dims_offsets=[[0, 40, 80, 2 * n]])
        back = sg.Sharding(grid, [[0]], sharded_dims_offsets=[[0, 40, 80, 2 * n]], halo_sizes=[0, 0])
        held = sg.from_global(values, turned, grid).local
        sg.reshard(held, turned, back, grid, values.shape, out=held)
        assert np.array_equal(held, values[back.shard_slices(values.shape, grid.coords)])

    spmd(3, body)


def test_other_processes(spmd):
    """From the processes 0 and 1 to 2 and 1; process 3 has no part."""

    def body():
        grid = sg.init_grid((4,))
        here, there = (sg.init_grid((2,), ranks=ranks) for ranks in ([0, 1], [2, 1]))
        source, target = sg.Sharding(here, [[0]]), sg.Sharding(there, [[], [0]])
        local = None if here.coords is None else VALUES[source.shard_slices(SHAPE, here.coords)]
        bound = here if here.coords is not None else there
        for _ in range(3):
            found = None if bound.coords is None else sg.reshard(local, source, target, bound, SHAPE)
            if there.coords is None:
                assert found is None
            else:
                assert np.array_equal(found, VALUES[target.shard_slices(SHAPE, there.coords)])
        return sg.all_reduce(1, grid)

    assert spmd(4, body) == [4] * 4


def test_a_request_binds_a_plan_when_it_comes_again(spmd, monkeypatch):
    bound = []

    def counted(plan, grid, comm, *rest):
        bound.append(comm.rank)
        return BoundPlan(plan, grid, comm, *rest)

    def body():
        grid = sg.init_grid((2,))
        counts = []
        a = sg.zeros((103, 8), sg.Sharding(grid, [[0]]), grid)
        for border in (20, 30, 30, 40):
            a.reshard(sg.Sharding(grid, [[0]], sharded_dims_offsets=[[0, border, 103]]))
            counts.append(bound.count(grid.rank))
        return counts

    monkeypatch.setattr(prepared_reshard, "BoundPlan", counted)
    assert spmd(2, body) == [[0, 0, 1, 1]] * 2


def test_a_wrong_box_cuts_off_rather_than_give_wrong_cells(monkeypatch):
    def wrong(moved, process, coords):
        raise PlanError("a cell is missing")

    def body():
        grid = sg.init_grid((2,))
        a = sg.zeros((9,), sg.Sharding(grid, [[0]]), grid)
        texts = []
        for call in (lambda: a.reshard(sg.Sharding(grid, [[]])), lambda: sg.all_reduce(1, grid)):
            with pytest.raises(sg.SpmdError) as caught:
                call()
            texts.append(str(caught.value))
        return texts

    monkeypatch.setattr(first_run, "check_receives", wrong)
    for first, second in sg.run_spmd(body, ranks=2):
        assert "a cell is missing" in first and "a cell is missing" in second
