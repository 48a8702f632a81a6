"""A state saved beside computing, and a part of it loaded in another layout.

mpiexec -n 3 python mpirun_examples/storage/checkpoint.py FOLDER
"""

import sys

import numpy as np

import spmd_grid as sg

grid = sg.init_grid((-1,))
rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
u = sg.from_function(lambda i, j: 1500.0 * i + j, (600, 1500), rows, grid)

state = {"fluid": {"u": u, "walls": np.arange(3)}, "step": 7, "rng": np.random.default_rng(1)}
saving = sg.save(sys.argv[1], state, wait=False)
u += 1  # the checkpoint has the values of the call
folder = saving.wait()

loaded = sg.load(folder, {"fluid/u": columns}, grid, names=["fluid/u", "step"])
same = bool((loaded["fluid"]["u"].reshard(rows) == u - 1).all())
print(f"rank {grid.rank}: {folder.name} of step {loaded['step']}, {loaded['fluid']['u'].core.shape}, the same: {same}")
