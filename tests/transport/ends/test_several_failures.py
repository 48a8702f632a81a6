"""Several processes fail at once, or one while another leaves: the job ends soon, and shows why."""

import pytest
from support.jobs import run_job
from support.patience import in_time

PROGRAM = """
import sys, time, atexit, threading
import numpy as np, spmd_grid as sg
grid = sg.init_grid((-1,))
sg.all_reduce(1, grid, [0])
way, me = sys.argv[1], grid.rank
print(f"seconds {time.time()}", flush=True)

def fail():
    raise ValueError("on purpose")

if way == "all raise others":
    raise [ValueError, KeyError, OSError][me]("on purpose")
if way == "one raises, others exit":
    sys.exit(3) if me else fail()
if way == "one exits, others raise":
    fail() if me else sys.exit(0)
if way == "while handling another":
    try:
        sg.all_reduce(np.ones(me + 1), grid, [0])
    except sg.SpmdError:
        fail()
if way == "in a thread, while others wait":
    if me == 0:
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
    else:
        sg.all_reduce(1, grid, [0])
if way == "in a handler at exit" and me == 0:
    atexit.register(fail)
"""
WAYS = [
    "all raise others",
    "one raises, others exit",
    pytest.param("one exits, others raise", marks=pytest.mark.full),
    "while handling another",
    "in a thread, while others wait",
]


def run(folder, way):
    program = folder / "several.py"
    program.write_text(PROGRAM)
    job = run_job("mpiexec", 3, program, way)
    began = max(float(line.split()[1]) for line in job.out.splitlines() if line.startswith("seconds"))
    assert in_time(job.ended - began, 5), job
    assert "Traceback" in job.err and "on purpose" in job.err, job
    return job


@pytest.mark.parametrize("way", WAYS)
def test_the_job_ends_with_a_traceback(tmp_path, way):
    job = run(tmp_path, way)
    assert 0 < job.code < 128, job


def test_a_handler_at_exit_that_raises_stops_nobody(tmp_path):
    """Python prints what it raises and goes on to end; so do all processes."""
    assert run(tmp_path, "in a handler at exit").code == 0
