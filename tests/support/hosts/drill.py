"""A program that repeats operations until its last rank does as it is told: ``drill.py [ACT [STEP or FILE]]``.

If a file is named, all ranks act in the first step in which it exists.
"""

import ctypes
import os
import signal
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import spmd_grid as sg


def act(what, grid):
    """The misfortunes of one rank."""
    if what == "raise":
        raise ValueError("broken on purpose")
    if what == "exit":
        sys.exit(3)
    if what == "mismatch":
        sg.broadcast(np.ones(7), grid, [0], [0])
    if what == "hang":
        time.sleep(1000)
    if what == "hang in C":
        ctypes.PyDLL(None).sleep(1000)  # keeps the interpreter's lock
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "os._exit":
        os._exit(0)
    return what == "return"


def plan_of(grid):
    """The run of a plan in which the pairs of neighbouring ranks meet, each by itself."""
    pairs = sg.init_grid((grid.size // 2, 2))
    rows, whole = sg.Sharding(pairs, [[0], [1]]), sg.Sharding(pairs, [[0], []])
    plan = sg.plan_reshard(rows, whole, (8, 8), "float64")
    shape = rows.local_shape((8, 8), pairs.coords)
    return lambda: sg.run_plan(plan, np.ones(shape), pairs)


def broadcast_of(grid):
    """The run of a plan that does not meet: the last rank sends to all others."""
    last = grid.size - 1
    mine = ((4,), "float64") if grid.rank == last else (None, None)
    plan = sg.broadcast.plan(grid, *mine, [0], [last])
    return lambda: plan.run(np.ones(4) if grid.rank == last else None)


def all_see(file, grid):
    """Whether any rank sees the file; the same on all ranks."""
    return sg.all_reduce(np.array([file is not None and file.exists()]), grid, [0], "max")[0]


def main():
    what, when = sys.argv[1:] + ["", "10"][len(sys.argv) - 1 :]
    file = Path(when) if when.startswith("/") else None
    at = -1 if file else int(when)
    if what == "another Python" and socket.gethostname() == "node2":
        from spmd_grid.transport.mpi.hosts import hosts

        hosts.sys = SimpleNamespace(version_info=SimpleNamespace(major=3, minor=99))
    if os.environ.get("DRILL_NOTICE"):
        from spmd_grid.transport.mpi.liveness import host_watch

        host_watch._ASKED_AFTER, host_watch._SILENT_AFTER, host_watch._ASKED_AGAIN = 1.0, 1.0, 0.5
    grid = sg.init_grid((-1,))
    runs_ahead, what = what.startswith("ahead "), what.removeprefix("ahead ")
    run = plan_of(grid) if what.startswith("plan") else None
    operate = broadcast_of(grid) if runs_ahead else lambda: all_see(file, grid)
    for step in range(1_000_000):
        if step == 5 and grid.rank == 0:
            print("started", flush=True)
        if step == at and grid.rank == grid.size - 1 and act(what, grid):
            return
        if run is not None and (step < at or (what == "plan by one") == (grid.rank == grid.size - 1)):
            run()
        seen = operate()
        if what == "stay" and step == at:
            print("the others end", flush=True) if grid.rank == 0 else time.sleep(1000 * (grid.rank == grid.size - 1))
            return
        if what == "end" and (step == at or (file and seen)):
            print(f"fine on {socket.gethostname()}\n", end="", flush=True)
            return
        time.sleep(0.02)


main()
