"""Chains of steps between nodes: those steps that stay within nodes are relayed there, by the processes they connect.

One machine whose arena is divided stands for two.
"""

from support.jobs import check_fine

PROGRAM = """
import numpy as np
import spmd_grid as sg
from spmd_grid.reshard.executor.bound_plan import BoundPlan

grid = sg.init_grid((2, 2))
made, init = [], BoundPlan.__init__

def remember(self, *args):
    init(self, *args)
    made.append(self)

BoundPlan.__init__ = remember
rng = np.random.default_rng(7)  # the same on all processes

def run(source, target, shape, dtype, strategy, turns=3):
    plan = sg.plan_reshard(source, target, shape, dtype, strategy)
    made.clear()
    for _ in range(turns):
        parts = [rng.integers(0, 50, shape).astype(dtype) for _ in range(2 if source.partial_axes else 1)]
        whole = parts[grid.coords[1] if source.partial_axes else 0]
        x = whole[source.shard_slices(shape, grid.coords)].copy()
        expected = sum(parts)[target.shard_slices(shape, grid.coords)]
        result = sg.run_plan(plan, x, grid)
        assert result.dtype == expected.dtype and np.array_equal(result, expected), (source, target, shape, dtype)
    (bound,) = made
    return [(exchange._comm.size, exchange.relay is not None) for exchange in bound._exchanges]

summed = sg.Sharding(grid, [[0], []], partial_axes=[1])  # over the processes of a node
rows, columns = sg.Sharding(grid, [[0], []]), sg.Sharding(grid, [[], [0]])
blocks, crossed = sg.Sharding(grid, [[0], [1]]), sg.Sharding(grid, [[], [1, 0]])
for shape in ((300, 260), (131, 97), (3, 5), (1, 1)):
    for dtype in ("f8", "f4", "i8", "i2"):
        # An exchange between nodes, then a sum within them, which is two steps.  Of one cell, nothing crosses.
        found = run(summed, columns, shape, dtype, "basis")
        assert found == [(4, False), (2, True), (2, True)] or shape == (1, 1), found
for shape in ((1031, 1029), (300, 260), (3, 1)):
    run(blocks, crossed, shape, "f8", "basis")
    run(crossed, rows, shape, "f8", "basis")
print("fine")
"""


def test_steps_within_nodes_are_relayed(tmp_path):
    check_fine(tmp_path, 4, PROGRAM, SPMD_GRID_RANKS_PER_NODE="2")
