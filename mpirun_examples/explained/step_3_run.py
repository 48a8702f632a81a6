"""The partitioned program runs on the devices, and equals numpy."""

import numpy as np
from step_1_trace import mlp, part

import spmd_grid as sg

rng = np.random.default_rng(0)
arrays = [rng.standard_normal(shape) for shape in ((6, 8), (8, 32), (32, 8))]

grid = sg.init_grid((2,), axis_names=("model",))
sharded = [sg.from_global(x, sharding, grid) for x, sharding in zip(arrays, part.in_shardings)]
y = part.run(grid, *sharded)
print(f"rank {grid.rank}: w1 is {sharded[1].local.shape} here, y {y.local.shape}")
print(f"rank {grid.rank}: equal to numpy: {np.allclose(y.to_global(), mlp(*arrays))}")
