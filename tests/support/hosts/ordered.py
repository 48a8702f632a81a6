"""A program that makes a grid with order="auto" and computes on it: ``ordered.py SHAPE``, for 4 processes.

Prints the hosts of all devices and the seconds of a halo step by the model, in this order and in that of the processes'
numbers, from the first process.  A wrong result is an AssertionError, which ends the job.
"""

import socket
import sys

import numpy as np

import spmd_grid as sg
from spmd_grid.links.order import halo_step

shape = tuple(map(int, sys.argv[1].split("x")))
grid = sg.init_grid(shape, order="auto")
name = np.frombuffer(socket.gethostname().encode().ljust(16), np.uint8)
hosts = ["".join(map(chr, row)).strip() for row in sg.all_gather(name[None], grid, None, 0)]

whole = np.arange(130.0 * 170).reshape(130, 170) % 37
sharding = sg.Sharding(grid, [[axis] for axis in range(grid.ndim)], halo_sizes=[1, 1] * grid.ndim)
u = sg.from_global(whole, sharding, grid)
stencil = u[2:, 1:-1] + u[:-2, 1:-1] - u[1:-1, 2:] * u[1:-1, :-2]
if not (stencil.to_global() == whole[2:, 1:-1] + whole[:-2, 1:-1] - whole[1:-1, 2:] * whole[1:-1, :-2]).all():
    raise AssertionError("the stencil is wrong")
for target in (sg.Sharding(grid, []), sg.Sharding(grid, [[], [grid.ndim - 1]])):
    if not (u.reshard(target).to_global() == whole).all():
        raise AssertionError(f"the resharding to {target} is wrong")
if sg.all_reduce(float(grid.rank), grid) != 6:
    raise AssertionError("the sum is wrong")
here, plain = (halo_step(each, grid.links()) for each in (grid.grid, sg.Grid(shape)))
words = grid.describe()
if grid.rank == 0:
    print(" ".join(hosts), f"{here.apart} of {plain.apart} pairs apart", here <= plain, "node 1" in words)
