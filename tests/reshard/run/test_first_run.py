"""Before anything moves: the plan is checked, the same on all processes, and an error of one is told to all."""

import dataclasses
import threading

import numpy as np
import pytest
from support.reshard.lying import Lying

import spmd_grid as sg
from spmd_grid.reshard import execute as run
from spmd_grid.reshard.plan import plan_reshard

SHAPE = (6, 8)
VALUES = np.arange(48).reshape(SHAPE)


def blocks_and_rows(grid):
    return sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[0, 1]])


def refused(call, *args, **options):
    """The error that this process raises, in words."""
    with pytest.raises(sg.SpmdError) as caught:
        call(*args, **options)
    return type(caught.value).__name__, str(caught.value)


def check_reshard(grid):
    """The same resharding, as it should be, works."""
    source, target = blocks_and_rows(grid)
    local = VALUES[source.shard_slices(SHAPE, grid.coords)]
    result = sg.reshard(local, source, target, grid, SHAPE, strategy="direct")
    assert np.array_equal(result, VALUES[target.shard_slices(SHAPE, grid.coords)])


def test_a_plan_that_is_wrong_on_one_process(spmd):
    """Rank 3 would not receive all that it wants: an error on all that the plan connects, again and again."""

    def body():
        grid = sg.init_grid((2, 2))
        source, target = sg.Sharding(grid, [[0, 1]]), sg.Sharding(grid, [[], [0, 1]])
        plan = dataclasses.replace(sg.plan_reshard(source, target, SHAPE, "i8", "direct"))
        if grid.rank == 3:
            (move,) = plan.moves
            wrong = Lying(move.source, move.target, move.itemsize, move.node_size)
            vars(plan)["moves"] = (wrong.tamper("receives", lambda pieces: pieces[1:]),)
        local = VALUES[source.shard_slices(SHAPE, grid.coords)]
        errors = [refused(sg.run_plan, plan, local, grid) for _ in range(2)]
        check_reshard(grid)
        return errors

    (found, again), *others = spmd(4, body)
    assert found == again and others == 3 * [[found, found]]
    assert found[0] == "PlanError" and "every cell once" in found[1] and "(on rank 3 " in found[1]


def test_processes_that_plan_differently(spmd, monkeypatch):
    """As two versions of this package might; the first run of a request needs no plan, where arrays can be read."""
    here, shape = threading.local(), (10, 4)

    def plan_as_this_rank_does(source, target, global_shape, dtypes, strategy, **options):
        strategy = "basis" if here.rank == 1 else "direct"
        return plan_reshard(source, target, global_shape, dtypes, strategy, **options)

    def body():
        grid = sg.init_grid((2, 2))
        here.rank = grid.rank
        source, target = blocks_and_rows(grid)
        local = grid.allocate(source.shard_shape(shape, grid.coords), float, zeroed=True)
        sg.reshard(local, source, target, grid, shape)
        error = refused(sg.reshard, local, source, target, grid, shape)
        return error, int(sg.all_reduce(1, grid, [0, 1], "sum"))

    monkeypatch.setattr(run, "plan_reshard", plan_as_this_rank_does)
    first, *others = spmd(4, body)
    assert others == 3 * [first] and first[1] == 4
    assert first[0][0] == "MismatchError" and "basis" in first[0][1] and "direct" in first[0][1]


class Odd:
    """An array of another library, one might think."""

    @property
    def layout(self):
        raise TypeError("no layout today")


@pytest.mark.parametrize("as_out", [False, True], ids=["local", "out"])
def test_an_error_of_pythons_on_one_process(spmd, as_out):
    def body():
        grid = sg.init_grid((2, 2))
        source, target = blocks_and_rows(grid)
        local, out = VALUES[source.shard_slices(SHAPE, grid.coords)], None
        if grid.rank == 2:
            local, out = (local, Odd()) if as_out else (Odd(), None)
        error = refused(sg.reshard, local, source, target, grid, SHAPE, out)
        check_reshard(grid)
        return error

    first, *others = spmd(4, body)
    assert others == 3 * [first] and first[0] == "SpmdError"
    assert first[1].startswith("reshard: TypeError: no layout today (on rank 2 ")
