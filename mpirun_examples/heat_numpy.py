"""Heat that spreads in a plate, in numpy's slices: heat_numpy.py on one process, heat_slices.py on many.

    python mpirun_examples/heat_numpy.py
    mpiexec -n 4 python mpirun_examples/heat_slices.py
    python -m spmd_grid run -n 4 mpirun_examples/heat_slices.py

Two lines of heat_slices.py are not in heat_numpy.py: the import of spmd_grid, and the one that spreads the plate's rows
over all processes.  Every process prints what the numpy program prints, the middle cell bit for bit.
"""

import numpy as np

SHAPE = 31, 34
STEPS = 50

u = np.zeros(SHAPE)
u[0, :] = 1.0
u[10:20, 10:20] = np.arange(10.0)
for _ in range(STEPS):  # the cells at the rim keep their temperature
    u[1:-1, 1:-1] += 0.2 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])

row, column = np.unravel_index(np.argmax(u), u.shape)
print(f"heat: mean {np.mean(u):.9f}, hottest cell ({row}, {column}), middle cell {float(u[15, 17]).hex()}")
