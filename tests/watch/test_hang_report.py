"""Programs in which one rank keeps the others waiting: they end soon, with one picture of what every rank does."""

import re
import subprocess
import sys
import time

import pytest
from support.jobs import COMPILED_LOOP, clean_environment, mpi_command, needs_mpiexec, run_job
from support.patience import at_growing_scales, communicate, in_time, until

import spmd_grid as sg
from spmd_grid.transport.launch import run_spmd

# Of the limit, 1 s on a quiet machine: on a busy one ranks that nothing is wrong with may wait for longer.
at_growing_limits = at_growing_scales(1, 4, 12)

PROGRAM = f"""
import ctypes, os, sys, time
import numpy as np
import spmd_grid as sg
{COMPILED_LOOP}"""
PROGRAM += """
def compute():
    end = time.monotonic() + 30 * limit
    while time.monotonic() < end:
        pass

def stay_away():
    sg.init_grid((-1,), timeout=limit)
    meet()
    if grid.rank == last:
        time.sleep(30 * limit)

def other_group():
    rows = sg.init_grid((2, -1))
    sg.all_reduce(np.ones(2), rows, [1], "sum")
    meet()
    if rows.coords[0] == 1:
        sg.all_reduce(np.ones(2), rows, [1], "sum")
        return
    if grid.rank == 0:
        sg.recv(grid, [0], [last])  # which has other things to do
    sg.all_reduce(np.ones(2), rows, [1], "max")

def ended():
    meet()
    if grid.rank == 0:
        sg.recv(grid, [0], [1])
    elif grid.rank == 1:
        time.sleep(30 * limit)

def meet():
    sg.all_reduce(1, grid, [0], "sum")
    with open(f"{stamp}{grid.rank}", "w") as file:
        file.write(str(time.time()))

KEEPERS = {
    "sleeps": lambda: time.sleep(30 * limit),
    "computes": compute,
    "keeps the lock": lambda: time.sleep(0.2) or ctypes.PyDLL(None).sleep(int(30 * limit)),
}
way, keeper, stamp, limit = sys.argv[1:]
limit = float(limit)
grid = sg.init_grid((-1,))
last = grid.size - 1
keeper = int(keeper) % grid.size
sg.all_reduce(np.ones(3), grid, [0], "sum")
sg.init_grid((-1,), timeout=60.0 * limit if way == "loop" else limit)
if way == "loop":
    compiled_loop(stay_away, 1, nogil=True)
elif way == "ended":
    ended()
elif way == "other group":
    other_group()
    time.sleep(30 * limit)
else:
    meet()
    if grid.rank == keeper:
        KEEPERS[way]()
    sg.all_reduce(np.ones(3), grid, [0], "max")  # waits
"""


def run_keeper(folder, transport, n, way, limit, keeper=-1, environment=None):
    """The job's picture: its lines by rank, and the whole; after all that holds of every such job."""
    program, stamp = folder / "keeper.py", folder / "stamp"
    program.write_text(PROGRAM)
    job = run_job(transport, n, program, way, str(keeper), str(stamp), str(limit), environment=environment)
    began = max(float((folder / f"stamp{rank}").read_text()) for rank in range(n))
    print(f"hang: {transport} {n} {way}: {job.ended - began - limit:.2f} s after the limit")
    assert job.code not in (0, 124), job
    assert in_time(job.ended - began - limit, 2), job
    assert job.err.count(f"no progress for {limit} s") == 1, job
    picture = job.err.partition("what every rank does:\n")[2].partition("the last operations")[0]
    lines = dict(re.findall(r"^  rank (\d+) (.*)$", picture, re.MULTILINE))
    assert sorted(map(int, lines)) == list(range(n)), job
    return {int(rank): line for rank, line in lines.items()}, job


def waits(lines, ranks, operation="reduction='max'"):
    return all(re.search(r"waits in .* #\d+ for \d+\.\d s at keeper.py:\d+$", lines[rank]) for rank in ranks) and all(
        operation in lines[rank] for rank in ranks
    )


@pytest.mark.parametrize("transport", ["mpiexec", pytest.param("simulated", marks=pytest.mark.full)])
@at_growing_limits
def test_a_rank_that_sleeps(tmp_path, transport, scale):
    lines, job = run_keeper(tmp_path, transport, 3, "sleeps", scale)
    assert waits(lines, [0, 1]), job
    assert re.search(
        r"\(2,\) computes since all_reduce.* #\d ended \d+\.\d s ago at .*, now at keeper.py:\d+$", lines[2]
    )
    assert "the last operations of rank 2 (2,):" in job.err, job


@pytest.mark.full
@at_growing_limits
def test_a_rank_that_computes_in_python(tmp_path, scale):
    lines, job = run_keeper(tmp_path, "mpiexec", 2, "computes", scale, keeper=0)
    assert waits(lines, [1]) and "computes since" in lines[0] and "now at keeper.py" in lines[0], job


@pytest.mark.parametrize(
    ("n", "keeper", "per_node"),
    [
        pytest.param(2, 0, "", marks=pytest.mark.full),
        (4, 3, "2"),
        pytest.param(4, 0, "1", marks=pytest.mark.full),
    ],
)
@at_growing_limits
def test_a_rank_that_lets_python_do_nothing_else(tmp_path, n, keeper, per_node, scale):
    environment = {"SPMD_GRID_RANKS_PER_NODE": per_node}
    lines, job = run_keeper(tmp_path, "mpiexec", n, "keeps the lock", scale, keeper, environment)
    assert waits(lines, [rank for rank in range(n) if rank != keeper]), job
    if per_node == "1":  # nobody can read its records
        assert "does not answer, nor does its node" in lines[keeper], job
    else:
        assert "computes since all_reduce" in lines[keeper] and "does not answer" in lines[keeper], job


@at_growing_limits
def test_simulated_ranks_where_python_gets_no_chance(tmp_path, scale):
    program = tmp_path / "keeper.py"
    program.write_text(PROGRAM)
    job = run_job("simulated", 2, program, "keeps the lock", "1", str(tmp_path / "stamp"), str(scale))
    assert job.code == 1 and f"Timeout (0:00:{3 * scale:02})" in job.err and "keeper.py" in job.err, job
    assert in_time(job.ended - float((tmp_path / "stamp1").read_text()) - 3 * scale, 2.2), job


@pytest.mark.parametrize("environment", [{"SPMD_GRID_RANKS_PER_NODE": "3"}, pytest.param({}, marks=pytest.mark.full)])
@at_growing_limits
def test_ranks_in_operations_of_different_groups(tmp_path, environment, scale):
    lines, job = run_keeper(tmp_path, "mpiexec", 4, "other group", scale, environment=environment)
    assert "waits in recv" in lines[0], job
    assert waits(lines, [1], "all_reduce(grid_axes=[1]"), job
    assert "computes since all_reduce(grid_axes=[1]" in lines[2] and "now at keeper.py" in lines[3], job


@pytest.mark.full
@at_growing_limits
def test_ranks_that_have_ended(tmp_path, scale):
    lines, job = run_keeper(tmp_path, "mpiexec", 4, "ended", scale)
    assert waits(lines, [0], "recv") and "computes" in lines[1], job
    assert lines[2].endswith("has ended") and lines[3].endswith("has ended"), job


@pytest.mark.parametrize("transport", ["mpiexec", pytest.param("simulated", marks=pytest.mark.full)])
@at_growing_limits
def test_a_compiled_loop(tmp_path, transport, scale):
    lines, job = run_keeper(tmp_path, transport, 2, "loop", scale)
    assert waits(lines, [0], "HaloExchange"), job
    assert re.search(r"made at keeper.py:\d+, in a compiled loop #\d+ for", lines[0]), job
    assert "computes" in lines[1], job


SLOW = """
import sys, time
import numpy as np
import spmd_grid as sg
grid = sg.init_grid((-1,))
halo = sg.HaloExchange(grid, sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), (8,), "f8", True, path=sys.argv[1] or None)
scale = float(sys.argv[2])
sg.init_grid((-1,), timeout=0.5 * scale)
u = np.ones(8 // grid.size + 2)
request = sg.all_reduce.start(1, grid, [0], "sum")  # that nobody waits for is no hang
for step in range(5):
    if grid.rank == 0:
        time.sleep(0.3 * scale)
    halo.update(u)
if grid.rank == 0:
    time.sleep(0.3 * scale)
assert request.wait() == grid.size
sg.init_grid((-1,), timeout=60.0)
time.sleep(0.6 * scale * (grid.rank == 0))
sg.all_reduce(1, grid, [0], "sum")
"""


@pytest.mark.parametrize("path", ["message", pytest.param("", marks=pytest.mark.full)])
@at_growing_scales(1, 6, 24)
def test_many_short_waits_are_no_hang(tmp_path, path, scale):
    program = tmp_path / "slow.py"
    program.write_text(SLOW)
    job = run_job("mpiexec", 2, program, path, str(scale))
    assert (job.code, job.err) == (0, ""), job


# -- simulated ranks, in process -----------------------------------------------------------------------------------


def unequal(way, scale=1):
    grid = sg.init_grid((-1,))
    sg.all_reduce(1, grid, [0], "sum")
    if grid.rank == 1:
        if way == "sleeps":
            time.sleep(1.2 * scale)
        else:
            end = time.monotonic() + 20 * scale
            while time.monotonic() < end:
                pass
    return sg.all_reduce(1, grid, [0], "sum")


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("way", ["sleeps", "computes"])
@at_growing_scales(1, 6, 24)
def test_simulated_ranks(way, seed, scale):
    began = time.monotonic()
    with pytest.raises(sg.HangError) as caught:
        run_spmd(unequal, way, scale, ranks=3, seed=seed, timeout=0.3 * scale)
    assert in_time(time.monotonic() - began - 0.3 * scale, 2)
    text = str(caught.value)
    assert text.count("waits in all_reduce") + text.count("is in all_reduce") >= 1, text
    assert re.search(r"rank 1 \(1,\) computes since .*, now at test_hang_report.py:\d+", text), text
    assert all(len(re.findall(rf"^  rank {rank} ", text, re.MULTILINE)) == 1 for rank in range(3)), text


def test_without_a_limit_nobody_looks():
    assert run_spmd(unequal, "sleeps", ranks=2) == [2, 2]


@at_growing_scales(1, 6, 24)
def test_a_limit_set_by_the_program(monkeypatch, scale):
    monkeypatch.setenv("SPMD_GRID_TIMEOUT", "600")

    def body():
        sg.init_grid((-1,), timeout=0.3 * scale)
        unequal("sleeps", scale)

    with pytest.raises(sg.HangError):
        run_spmd(body, ranks=2)


DEBUGGED = """
import sys, time
import spmd_grid as sg
grid = sg.init_grid((-1,), timeout=float(sys.argv[1]))
def look():
    found = 5
    if grid.rank == 0:
        breakpoint()
    return found
look()
sg.all_reduce(1, grid, [0], "sum")
print("done")
"""


@pytest.mark.parametrize("transport", ["simulated", pytest.param("mpiexec", marks=needs_mpiexec)])
@at_growing_scales(1, 6, 24)
def test_a_rank_at_a_breakpoint_is_no_hang(tmp_path, transport, scale):
    program = tmp_path / "debugged.py"
    program.write_text(DEBUGGED)
    words, root = ([sys.executable, "-m", "spmd_grid", "run"], {}) if transport == "simulated" else mpi_command()
    python = [] if transport == "simulated" else [sys.executable]
    said = tmp_path / "said"
    with (
        said.open("w") as output,
        subprocess.Popen(
            [*words, "-n", "2", *python, program, str(0.5 * scale)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            env=clean_environment(**root, PYTHONUNBUFFERED="1"),
        ) as child,
    ):
        try:
            assert until(lambda: "-> return found" in said.read_text() or child.poll() is not None, 20)
            time.sleep(1.5 * scale)  # three limits
            child.stdin.write("p found + 1\n")
            child.stdin.flush()
            time.sleep(0.3)
            communicate(child, "c\n", limit=20)
        finally:
            child.kill()
    out = said.read_text()
    assert child.returncode == 0 and "6" in out and out.count("done") == 2, out
