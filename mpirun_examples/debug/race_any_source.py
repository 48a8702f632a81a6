"""A race: the result on rank 0 depends on the order in which messages arrive.

    python -m spmd_grid run -n 4 --seeds 20 mpirun_examples/debug/race_any_source.py

``recv`` without a source takes a message from any sender, and the fold below is not commutative.  The remedy: receive
from one rank after the other, or let ``all_reduce`` fold in the order of the group.
"""

import numpy as np

import spmd_grid as sg

grid = sg.init_grid((-1,), axis_names=("x",))
if grid.rank > 0:
    sg.send(np.array([float(grid.rank)]), grid, ["x"], destination=[0])
else:
    smoothed = np.zeros(1)
    for _ in range(grid.size - 1):
        smoothed = 0.5 * smoothed + 0.5 * sg.recv(grid, ["x"])
    print(f"smoothed {smoothed[0]}")
