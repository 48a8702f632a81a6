"""Tries every way in when the library has closed: after MPI.Finalize, or from a destructor when Python ends.

The argument says when.  Prints what each way said, as a line of JSON.
"""

import builtins
import json
import sys

import numpy as np
from mpi4py import MPI
from ways_in import WaysIn, compiled_loop

import spmd_grid as sg


def refused_or(function):
    """The error or the result of an attempt, in words."""
    try:
        return f"went through: {function()!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


class Kept:
    """Lives until the interpreter has nothing left, and holds all that it needs."""

    def __init__(self):
        grid = sg.init_grid((-1,))
        kit = self.kit = WaysIn(grid, compiled_loop() if sys.argv[1] == "finalized" else None)
        for way in kit.ways.values():
            assert way(2.0)
        with sg.forced_path("message"):
            self.messages = sg.HaloExchange(grid, kit.split, kit.shape, "f8", True)
        request = sg.send.start(1, grid, [0], [1 - grid.rank])
        sg.recv(grid, [0])
        request.wait()
        u = np.ones(6)
        self.tries = kit.ways | {
            "new axes": lambda: sg.all_reduce(1, grid, []),
            "send": lambda: sg.send(1, grid, [0], [1 - grid.rank]),
            "send to itself": lambda: sg.send(1, grid, [0], [grid.rank]),
            "recv": lambda: sg.recv(grid, [0], [1 - grid.rank]),
            "poke": kit.halo.poke,
            "halo by messages": lambda: self.messages.update(u),
            "init_grid": lambda: sg.init_grid((-1,)),
        }
        self.local = {
            "allocate": lambda: grid.allocate((1000,), "f8", True).fill(1),
            "write": lambda: (kit.arena.fill(3), kit.array.local.fill(2)),
            "close": lambda: (kit.plan.close(), kit.halo.close(), self.messages.close(), grid.close()),
        }
        self.refused_or, self.dumps, self.write, self.rank = refused_or, json.dumps, sys.__stdout__, grid.rank
        self.flush = sys.__stdout__.flush

    def report(self):
        told = {}
        for name, function in (self.tries | self.local).items():
            args = (4.0,) if name in self.kit.ways else ()
            told[name] = self.refused_or(lambda function=function, args=args: function(*args))
        if self.rank == 0:
            self.write.write(self.dumps(told) + "\n")
            self.flush()

    def __del__(self):
        self.report()


kept = Kept()
if sys.argv[1] == "finalized":
    MPI.Finalize()
    kept.report()
    Kept.__del__ = lambda self: None
else:
    builtins.kept = kept  # which goes last
    del kept
