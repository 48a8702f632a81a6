"""A child made by fork is refused every operation, and its parent goes on undisturbed, however the child ends."""

import json
import os
import warnings
from pathlib import Path

import pytest
from child_trial import check, check_what_is_left, refusals
from support.jobs import needs_mpiexec, run_job
from ways_in import WaysIn, compiled_loop

import spmd_grid as sg

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


_ENDS = ["_exit", "sys.exit", "return", "raise", "multiprocessing"]


@needs_mpiexec
@pytest.mark.parametrize("arena, ends", [("", _ENDS), ("0", ["sys.exit"])], ids=["arena", "messages"])
def test_children_of_processes(arena, ends):
    program = Path(__file__).with_name("forked_job.py")
    job = run_job("mpiexec", 2, program, *ends, environment={"SPMD_GRID_ARENA": arena})
    assert (job.code, job.out) == (0, "undisturbed\n"), job
    assert job.err.count("RuntimeError: of a child") == job.err.count("Traceback") == 2 * ends.count("raise"), job


def test_children_of_simulated_ranks():
    loop = compiled_loop()

    def body():
        grid = sg.init_grid((2,))
        kit = WaysIn(grid, loop)
        array = sg.zeros(kit.shape, kit.split, grid)
        array.local[:] = 5
        kit.arena[:] = 7
        request = sg.all_reduce.start(1, grid, [0])
        assert kit.ways["compiled loop"](2.0)
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            number = os.fork()
        if number == 0:
            told = {"the trial": "did not come to its end"}
            try:
                told = refusals(kit, request)
                check_what_is_left(kit, array)
            finally:
                with os.fdopen(writing, "w") as file:
                    json.dump(told, file)
                os._exit(0)
        os.close(writing)
        assert all(way(2.0) for name, way in kit.ways.items() if name != "all_reduce in the arena")
        assert request.wait() == 2
        with os.fdopen(reading) as file:
            told = json.load(file)
        os.waitpid(number, 0)
        assert all(way(3.0) for way in kit.ways.values())
        return told

    for told in sg.run_spmd(body, ranks=2):
        check(told, "Start processes with spawn")
