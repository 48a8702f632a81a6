"""Children made by fork try every way into the library, and end in every way; their parents go on meanwhile."""

import json
import multiprocessing
import os
import sys
import warnings

from child_trial import check, check_what_is_left, refusals
from ways_in import WaysIn, compiled_loop

import spmd_grid as sg

warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads, which is what is tried

grid = sg.init_grid((-1,))
kit = WaysIn(grid, compiled_loop() if len(sys.argv) > 2 else None)
array = sg.zeros(kit.shape, kit.split, grid)
array.local[:] = 5
kit.arena[:] = 7


def go_on():
    for name, way in kit.ways.items():
        if name != "all_reduce in the arena":
            assert way(2.0) and way(3.0), f"{name} of the parent"


def trial(request, pipe):
    told = refusals(kit, request)
    check_what_is_left(kit, array)
    with os.fdopen(pipe, "w") as file:
        json.dump(told, file)


def main():
    go_on()
    for how in sys.argv[1:]:
        request = sg.all_reduce.start(1, grid, [0])
        reading, writing = os.pipe()
        if how == "multiprocessing":
            child = multiprocessing.get_context("fork").Process(target=trial, args=(request, writing))
            child.start()
            number = child.pid
        else:
            number = os.fork()
            if number == 0:
                trial(request, writing)
                if how == "_exit":
                    os._exit(3)
                elif how == "sys.exit":
                    sys.exit(3)
                elif how == "raise":
                    raise RuntimeError("of a child")
                return False
        os.close(writing)
        go_on()
        assert request.wait() == grid.size
        with os.fdopen(reading) as file:
            check(json.load(file), "Start processes with spawn")
        code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
        assert code == {"_exit": 3, "sys.exit": 3, "raise": 1}.get(how, 0), f"{how}: {code}"
        go_on()
        kit.ways.pop("compiled loop", None)  # it has been seen once; what refuses it is compiled anew in each child
    return True


if main():
    sg.all_reduce(0, grid, [0])
    if grid.rank == 0:
        print("undisturbed")
