"""Programs of which one rank does not end: those that have ended wait for it, and say so."""

import re
import time

import pytest
from support.jobs import run_job
from support.patience import at_growing_scales, in_time

import spmd_grid as sg
from spmd_grid.transport.launch import run_spmd

# Of the limit, 1 s on a quiet machine.
at_growing_limits = at_growing_scales(1, 4, 12)

PROGRAM = """
import ctypes, os, signal, sys, time
import numpy as np
import spmd_grid as sg
from spmd_grid.transport.mpi.liveness import hang_watch

way, limit, stamp = sys.argv[1], float(sys.argv[2]), sys.argv[3]
hang_watch._NOTED_AFTER = limit
grid = sg.init_grid((-1,))
others = sg.init_grid((grid.size - 1,), ranks=list(range(1, grid.size)))
grid = sg.init_grid((-1,), timeout=None if way.startswith("noted") else limit)

def compute(limits):
    end = time.monotonic() + limits * limit
    while time.monotonic() < end:
        pass

def go_on():
    end = time.monotonic() + 3 * limit
    while sg.all_reduce(time.monotonic() < end, others, [0], "min"):
        time.sleep(0.4 * limit)

def meet(group):
    sg.all_reduce(np.ones(3), group, [0], "sum")

WAYS = {
    "loops": lambda: compute(30),
    "is stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "keeps the lock": lambda: ctypes.PyDLL(None).sleep(int(30 * limit)),
    "noted": lambda: compute(3),
    "noted, others": go_on,
    "others": go_on,
}
if grid.rank > 0:
    meet(others)
    sg.all_reduce(True, others, [0], "min")
meet(grid)
if grid.rank == 0:
    with open(stamp, "w") as file:
        file.write(str(time.time()))
if (way.endswith("others") and grid.rank > 0) or grid.rank == grid.size - 1:
    WAYS[way]()
    print("done", flush=True)
"""


def run_end(folder, n, way, limit):
    """The job, and the seconds from the end of most of its ranks to its own, less the limit."""
    program, stamp = folder / "end.py", folder / "stamp"
    program.write_text(PROGRAM)
    job = run_job("mpiexec", n, program, way, str(limit), str(stamp))
    return job, job.ended - float(stamp.read_text()) - limit


@pytest.mark.parametrize(
    ("way", "n", "does"),
    [
        ("loops", 3, r"now at end.py:1\d$"),
        ("is stopped", 2, r"at end.py:\d+ \(does not answer: it is stopped\)$"),
        pytest.param("keeps the lock", 3, "giving Python a chance", marks=pytest.mark.full),
    ],
)
@at_growing_limits
def test_a_rank_that_does_not_end(tmp_path, way, n, does, scale):
    job, late = run_end(tmp_path, n, way, scale)
    assert job.code not in (0, 124), job
    assert in_time(late - (scale if way == "keeps the lock" else 0), 2), job
    assert job.err.count(f"no progress for {scale} s") == 1, job
    lines = dict(re.findall(r"^  rank (\d+) (.*)$", job.err, re.MULTILINE))
    assert all(lines.pop(str(rank)) == f"({rank},) has ended" for rank in range(n - 1)), job
    line = lines.pop(str(n - 1))
    assert f"({n - 1},) computes since all_reduce" in line and re.search(does, line) and not lines, job


@at_growing_limits
def test_ranks_that_go_on_without_the_others_are_no_hang(tmp_path, scale):
    job, late = run_end(tmp_path, 3, "others", scale)
    assert (job.code, job.err, job.out) == (0, "", "done\n" * 2) and late > scale, job


@at_growing_limits
def test_without_a_limit_there_is_one_note_and_the_job_goes_on(tmp_path, scale):
    job, _ = run_end(tmp_path, 3, "noted", scale)
    assert (job.code, job.out) == (0, "done\n"), job
    first, *lines = job.err.splitlines()
    assert first == (
        f"spmd_grid: no progress for {scale} s since ranks have ended; the job goes on, without a limit; what every"
        " rank does:"
    ), job
    assert len(lines) == 3 and lines[:2] == ["  rank 0 (0,) has ended", "  rank 1 (1,) has ended"], job
    assert re.fullmatch(r"  rank 2 \(2,\) computes, no operation on record, now at end.py:1\d", lines[2]), job


@pytest.mark.full
@at_growing_limits
def test_without_a_limit_ranks_that_go_on_are_not_told_of(tmp_path, scale):
    job, _ = run_end(tmp_path, 3, "noted, others", scale)
    assert (job.code, job.err, job.out) == (0, "", "done\n" * 2), job


def unequal(way, scale):
    grid = sg.init_grid((-1,))
    sg.all_reduce(1, grid, [0], "sum")
    for _ in range(8 if grid.rank > 0 else 0):
        if way == "go on":
            time.sleep(0.1 * scale)
            sg.send(1, grid, [0], [2]) if grid.rank == 1 else sg.recv(grid, [0], [1])
        elif grid.rank == 1:
            time.sleep(0.3 * scale)
    return grid.rank


@pytest.mark.parametrize("seed", [None, 3])
@at_growing_scales(1, 6, 24)
def test_simulated_ranks(seed, scale):
    began = time.monotonic()
    with pytest.raises(sg.HangError) as caught:
        run_spmd(unequal, "sleeps", scale, ranks=3, seed=seed, timeout=0.4 * scale)
    assert in_time(time.monotonic() - began - 0.4 * scale, 2)
    assert re.search(r"rank 1 \(1,\) computes since .*, now at test_hang_at_end.py:\d+", str(caught.value))
    assert run_spmd(unequal, "go on", scale, ranks=3, timeout=0.5 * scale) == [0, 1, 2]
