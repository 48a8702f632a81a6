"""Small reshardings between nodes: arrays come with the frames, results are right, and no message follows.

One machine whose arena is divided stands for several nodes.
"""

import pytest
from support.jobs import run_job

PROGRAM = """
import itertools
import numpy as np
import pytest
import spmd_grid as sg
from spmd_grid.exchange.channel.channel import Channel

grid = sg.init_grid((2, -1))
channels = []  # those that are made: an exchange of boxes has one, and arrays that come with frames have none
made = Channel.__init__
Channel.__init__ = lambda self, *args, **options: channels.append(self) or made(self, *args, **options)
cuts = [[[0], [1]], [[0, 1], []], [[], [0, 1]], [[], []], [[0], []]]

def cells(shape, dtype, add=0):
    return ((np.arange(np.prod(shape)).reshape(shape) * 7 + 1 + add) % 100).astype(dtype)

for shape, dtype in (((2, 3), "i2"), ((20, 11), "c16")):
    for before, after in itertools.product(cuts, cuts):
        source, target = sg.Sharding(grid, before), sg.Sharding(grid, after)
        plan = sg.plan_reshard(source, target, shape, dtype)
        own, there = (side.shard_slices(shape, grid.coords) for side in (source, target))
        for turn in range(2):
            whole = cells(shape, dtype, turn)
            block, out = np.array(whole[own]), np.empty((*whole[there].shape, 2), dtype)[..., turn % 2]
            assert np.array_equal(plan.run(block.copy("F"), grid), whole[there])
            assert plan.run(block, grid, out) is out and np.array_equal(out, whole[there])
            assert np.array_equal(sg.reshard(block, source, target, grid, shape), whole[there])
        halos = sg.Sharding(grid, after, halo_sizes=[1, 1] * sum(map(bool, after)))
        if after != [[], []]:
            given = sg.ShardedArray.from_global(whole, source, grid)
            wanted = sg.ShardedArray.from_global(whole, halos, grid)
            back = given.reshard(halos)
            assert np.array_equal(back.core, wanted.core) and np.array_equal(back.reshard(source).core, given.core)
apart = [each for each in channels if each.comm.size > 1 and not each.comm.shares_memory]
assert not apart, [(each.comm.processes, each.outgoing) for each in apart]

shape = 12, 12
rows, columns = sg.Sharding(grid, [[0, 1]]), sg.Sharding(grid, [[], [0, 1]])
plan = sg.plan_reshard(rows, columns, shape, "f8")
whole = cells(shape, "f8")
own, there = whole[rows.shard_slices(shape, grid.coords)], whole[columns.shard_slices(shape, grid.coords)]
for turn in range(3):  # an array that is wrong on one process is refused on all, also at the first run
    with pytest.raises(sg.ShapeError, match="on rank 1 "):
        plan.run(own if grid.rank != 1 else own[:, 1:], grid)
    assert np.array_equal(plan.run(own, grid), there)
with pytest.raises(sg.MismatchError):
    plan.run(own, grid) if grid.rank else sg.plan_reshard(columns, rows, shape, "f8").run(there, grid)
assert np.array_equal(plan.run(own, grid), there)

if grid.size == 4:  # in place
    plan = sg.plan_reshard(sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[1], [0]]), shape, "f8")
    for turn in range(2):
        sides = plan.source.sharding, plan.target.sharding
        block, other = (whole[side.shard_slices(shape, grid.coords)].copy() for side in sides)
        assert plan.run(block, grid, block) is block and np.array_equal(block, other)

halos, line = sg.Sharding(grid, [[0, 1]], halo_sizes=[1, 1]), (2 * grid.size,)  # a shift by one cell in place
plan = sg.plan_reshard(halos, sg.Sharding(grid, [[0, 1]], halo_sizes=[0, 2]), line, "i8")
for turn in range(3):
    block = sg.ShardedArray.from_global(np.arange(line[0]) + turn, halos, grid).local.copy()
    fresh = plan.run(block, grid)
    assert plan.run(block, grid, block) is block and np.array_equal(block, fresh), (block, fresh)

n_channels = len(channels)
large = 128, 128
plan = sg.plan_reshard(rows, columns, large, "f8")
whole = cells(large, "f8")
found = plan.run(whole[rows.shard_slices(large, grid.coords)].copy(), grid)
assert np.array_equal(found, whole[columns.shard_slices(large, grid.coords)]) and len(channels) > n_channels
pair = sg.plan_reshard(rows, columns, shape, ["f8", "i4"])
whole = cells(shape, "f8")
found = pair.run([own.copy(), own.astype("i4")], grid)
assert np.array_equal(found[0], there) and np.array_equal(found[1], there.astype("i4"))
print("fine")
"""


@pytest.mark.parametrize(
    ("n", "per_node"), [(4, 2), pytest.param(4, 1, marks=pytest.mark.full), pytest.param(6, 2, marks=pytest.mark.full)]
)
def test_small_arrays_come_with_the_frames(tmp_path, n, per_node):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    job = run_job("mpiexec", n, program, environment={"SPMD_GRID_RANKS_PER_NODE": str(per_node)})
    assert (job.code, job.out.count("fine")) == (0, n), job
