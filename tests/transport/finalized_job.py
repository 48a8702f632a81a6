"""Finalizes MPI itself, then does what the argument names.  For the gate around operations."""

import sys, numpy as np
from mpi4py import MPI
import spmd_grid as sg
grid = sg.init_grid((-1,))
sg.all_reduce(1, grid, [0])
plan = sg.all_reduce.plan(grid, (4,), "f8", [0])
halo = sg.HaloExchange(grid, sg.Sharding(grid, [[0]], halo_sizes=[1,1]), (4*grid.size,), "f8", True)
a = sg.zeros((4*grid.size,), sg.Sharding(grid, [[0]]), grid)
MPI.Finalize()
what = sys.argv[1]
ops = {
 "all_reduce": lambda: sg.all_reduce(1, grid, [0]),
 "big": lambda: sg.all_reduce(np.ones(100000), grid, [0]),
 "new axes": lambda: sg.all_reduce(1, grid, []),
 "message": lambda: sg.all_gather(np.ones(10**6), grid, [0], 0),
 "start": lambda: sg.all_reduce.start(1, grid, [0]).wait(),
 "send": lambda: sg.send(1, grid, [0], [grid.rank]),
 "recv": lambda: sg.recv(grid, [0], [1 - grid.rank]),
 "plan": lambda: plan.run(np.ones(4)),
 "halo": lambda: halo.update(np.ones(6)),
 "halo close": lambda: halo.close(),
 "array": lambda: a.to_global(),
 "local": lambda: a.local.__setitem__(slice(None), 1.0),
 "zeros": lambda: sg.zeros((4*grid.size,), sg.Sharding(grid, [[0]]), grid),
 "init_grid": lambda: sg.init_grid((-1,)),
 "update_halo": lambda: sg.update_halo(np.ones(6), grid, [[0]], [1,1]),
}
try:
    ops[what]()
    print("went through", flush=True)
except BaseException as e:
    print(type(e).__name__, str(e)[:200].replace("\n"," | "), flush=True)
