"""A deadlock in some runs: all ranks send around a ring before any of them receives.

    python -m spmd_grid run -n 4 --seeds 20 mpirun_examples/debug/race_send_first.py

It works as long as messages are buffered until their receiver asks for them, as MPI libraries do with small messages;
the sender of a large message waits for its receiver, and then all ranks wait for each other.  The remedy:
``send.start``, ``recv``, and then ``wait()``; or ``shift``.
"""

import numpy as np

import spmd_grid as sg

grid = sg.init_grid((-1,), axis_names=("ring",))
after, before = (grid.rank + 1) % grid.size, (grid.rank - 1) % grid.size
sg.send(np.full(3, grid.rank), grid, ["ring"], destination=[after])
print("received", sg.recv(grid, ["ring"], source=[before]))
