"""A program that goes on and on, until its last rank does what it is told: ``drill.py [ACT [STEP]]``."""

import ctypes
import os
import signal
import socket
import sys
import time

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
    return what == "return"


def main():
    what, at = (sys.argv[1:] or [""])[0], int((sys.argv[2:] or ["10"])[0])
    if os.environ.get("DRILL_NOTICE"):
        from spmd_grid.transport.mpi.liveness import host_watch

        host_watch._ASKED_AFTER, host_watch._SILENT_AFTER, host_watch._ASKED_AGAIN = 1.0, 1.0, 0.5
    grid = sg.init_grid((-1,))
    for step in range(1_000_000):
        if step == 5 and grid.rank == 0:
            print("started", flush=True)
        if step == at and grid.rank == grid.size - 1 and act(what, grid):
            return
        sg.all_reduce(np.ones(1), grid, [0], "sum")
        if what == "end" and step == at:
            print(f"fine on {socket.gethostname()}\n", end="", flush=True)
            return
        time.sleep(0.02)


main()
