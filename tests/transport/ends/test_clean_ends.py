"""Jobs that are ended from outside, by Ctrl-C, SIGTERM or SIGKILL: one short report, soon, and nothing stays behind."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.jobs import COMPILED_LOOP, clean_environment, is_mpich, mpi_command, needs_mpich, needs_mpiexec, run_job
from support.mapped_files import KEEP_MAPS, shared_files
from support.patience import communicate, in_time, until

IS_MPICH = is_mpich()

PROGRAM = f"""
import ctypes, os, sys, time
import numpy as np
import spmd_grid as sg
{COMPILED_LOOP}"""
PROGRAM += """
def ready():
    sg.all_reduce(1, grid, [0], "sum")
    with open(f"pid{grid.rank}.new", "w") as file:
        file.write(f"{os.getpid()} {os.getppid()}")
    os.rename(f"pid{grid.rank}.new", f"pid{grid.rank}")

def late():
    if grid.rank == 0:
        time.sleep(30)

def wait_in(function):
    ready()
    late()
    function()

def catch():
    try:
        wait_in(lambda: sg.all_reduce(1, grid, [0], "sum"))
    except KeyboardInterrupt:
        os.write(1, b"saved\\n")

def handle():
    import signal
    def hear(*_):
        os.write(1, b"heard\\n")
        open(f"heard{grid.rank}", "w").close()
    signal.signal(signal.SIGINT, hear)
    ready()
    while grid.rank == 0 and not (os.path.exists("heard1") and os.path.exists("heard2")):
        time.sleep(0.05)
    sg.all_reduce(1, grid, [0], "sum")

WAYS = {
    "collective": lambda: wait_in(lambda: sg.all_reduce(1, grid, [0], "sum")),
    "recv": lambda: wait_in(lambda: sg.recv(grid, [0], [0])),
    "first use": lambda: wait_in(lambda: sg.all_reduce(1, sg.init_grid((1, grid.size)), [1], "sum")),
    "loop": lambda: compiled_loop(lambda: ready() or late(), 10),  # waits, and holds the interpreter's lock
    "sleep": lambda: ready() or time.sleep(30),
    "end": lambda: ready() or late(),
    "catches": catch,
    "own handler": handle,
    "keeps the lock": lambda: ready() or ctypes.PyDLL(None).sleep(5),
}
grid = sg.init_grid((-1,))
if "KEEP_STDERR" in os.environ:
    os.dup2(os.open(f"stderr{grid.rank}", os.O_CREAT | os.O_WRONLY), 2)
KEEP_MAPS
WAYS[sys.argv[1]]()
"""


class Ended:
    """A job to which something has been done: exit code, output, and the seconds from the deed to its end."""

    def __init__(self, folder, n, way, deed, environment=None):
        program = folder / "app.py"
        program.write_text(PROGRAM.replace("KEEP_MAPS", KEEP_MAPS))
        words, root = mpi_command()
        process = subprocess.Popen(
            [*words, "-n", str(n), sys.executable, program, way],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=clean_environment(**root, **(environment or {})),
            start_new_session=True,
        )
        try:
            self.launcher = process.pid
            self.pids, self.parents = zip(
                *(self._read(folder / f"pid{rank}", process) for rank in range(n)), strict=True
            )
            time.sleep(0.3)
            began = time.monotonic()
            deed(self)
            self.out, self.err = communicate(process, limit=20)
            self.seconds, self.code = time.monotonic() - began, process.returncode
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        self.left = self._left()
        print(f"end: {n} {way}: {self.seconds:.2f} s, exit code {self.code}")

    @staticmethod
    def _read(file, process):
        assert until(lambda: file.exists() or process.poll() is not None, 20), "the job does not begin"
        assert file.exists(), process.communicate()
        return [int(word) for word in file.read_text().split()]

    def _left(self):
        """The ranks that still run half a second after the launcher has ended."""

        def left():
            return [pid for pid in self.pids if Path(f"/proc/{pid}").exists() and not is_zombie(pid)]

        until(lambda: not left(), 0.5)
        return left()

    def __repr__(self):
        return f"exit code {self.code} after {self.seconds:.2f} s, left {self.left}\n{self.out}\n{self.err}"


def is_zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def send(number, *ranks):
    """The deed of sending a signal to some ranks, to the launcher (-1), or to its process group (-2)."""

    def deed(job):
        for rank in ranks:
            gone = [ProcessLookupError] if rank != ranks[0] else []  # the end of the first one may have ended it
            with suppress(*gone):
                if rank == -2:
                    os.killpg(job.launcher, number)
                else:
                    os.kill(job.launcher if rank == -1 else job.pids[rank], number)

    return deed


def reports(job):
    return re.findall(r"^spmd_grid: .*$", job.err, re.MULTILINE)


TARGETS = {"launcher": [-1], "group": [-2], "last rank": [-3], "all ranks": [0, 1]}
SAMPLE = [
    ("recv", "last rank", 2),
    ("loop", "launcher", 2),
    ("end", "last rank", 2),
    ("collective", "group", 2),
]
WAYS = ["collective", "recv", "first use", "loop", "sleep", "end"]
ALL = [(way, target, n) for way in WAYS for target in TARGETS for n in (2, 3)]
CASES = SAMPLE + [pytest.param(*case, marks=pytest.mark.full) for case in ALL if case not in SAMPLE]


def ranks_of(target, n):
    return [n - 1 if place == -3 else place for place in TARGETS[target]] + [2] * (target == "all ranks" and n > 2)


@needs_mpiexec
@pytest.mark.parametrize(("way", "target", "n"), CASES)
def test_ctrl_c(tmp_path, way, target, n):
    job = Ended(tmp_path, n, way, send(signal.SIGINT, *ranks_of(target, n)))
    assert job.code == 130 or (job.code != 0 and not IS_MPICH), job
    assert in_time(job.seconds, 2) and not job.left, job
    report = reports(job)
    assert "Traceback" not in job.err, job
    if not IS_MPICH and target in ("launcher", "group"):
        assert len(report) <= 1, job  # Open MPI's sends SIGTERM, and shows nothing more
        return
    assert len(report) == 1, job
    where = "the end of the program" if way == "end" else r"app\.py:\d+"
    where = rf"(?:{where}|app\.py:\d+)" if target != "last rank" else where
    assert re.fullmatch(rf"spmd_grid: interrupted \(Ctrl-C\) at {where} on rank \d \(\d(, \d|,)\)", report[0]), job
    assert not shared_files(tmp_path) or not IS_MPICH


@needs_mpiexec
@pytest.mark.parametrize("target", ["last rank", pytest.param("all ranks", marks=pytest.mark.full)])
@pytest.mark.parametrize("path", ["message", pytest.param("inline", marks=pytest.mark.full)])
def test_ctrl_c_while_mpi_waits(tmp_path, path, target):
    """No memory is shared, and MPI's own functions wait."""
    environment = {"SPMD_GRID_ARENA": "0", "SPMD_GRID_PATH": path}
    job = Ended(tmp_path, 2, "collective", send(signal.SIGINT, *ranks_of(target, 2)), environment)
    assert job.code != 0 and in_time(job.seconds, 2) and not job.left, job
    assert reports(job)[0].startswith("spmd_grid: interrupted (Ctrl-C) at app.py:") and "Traceback" not in job.err, job
    assert len(reports(job)) == 1 or not IS_MPICH, job  # Open MPI's launcher ends the others by SIGTERM


@needs_mpiexec
def test_a_program_may_catch_the_interrupt(tmp_path):
    job = Ended(tmp_path, 3, "catches", send(signal.SIGINT, 0, 1, 2))
    assert (job.code, job.err, job.out) == (0, "", 3 * "saved\n"), job


@needs_mpiexec
def test_a_handler_of_the_programs_own_is_left_alone(tmp_path):
    job = Ended(tmp_path, 3, "own handler", send(signal.SIGINT, 1, 2))
    assert (job.code, job.err, job.out) == (0, "", 2 * "heard\n"), job


@needs_mpiexec
@pytest.mark.parametrize("target", ["last rank", pytest.param("all ranks", marks=pytest.mark.full)])
@pytest.mark.parametrize("way", ["collective", *(pytest.param(w, marks=pytest.mark.full) for w in ("sleep", "loop"))])
def test_sigterm(tmp_path, way, target):
    job = Ended(tmp_path, 2, way, send(signal.SIGTERM, *ranks_of(target, 2)))
    assert job.code == 143 or (job.code != 0 and not IS_MPICH), job
    assert in_time(job.seconds, 2) and not job.left, job
    (report,) = reports(job)
    assert re.search(r"rank \d \(\d,\) of 2 was told to end \(SIGTERM\) at app\.py:\d+; the job is ended", report), job


@needs_mpiexec
@pytest.mark.full
def test_a_launcher_told_to_end_waits_for_nobody_that_computes_in_c(tmp_path):
    job = Ended(tmp_path, 2, "keeps the lock", send(signal.SIGTERM, -1))
    assert job.code != 0 and in_time(job.seconds, 8) and not job.left, job


@needs_mpiexec
@pytest.mark.parametrize("way", ["collective", *(pytest.param(w, marks=pytest.mark.full) for w in ("sleep", "loop"))])
@pytest.mark.parametrize("ranks", [[1], pytest.param([0], marks=pytest.mark.full), [0, 1, -1, -2]])
def test_sigkill_leaves_nothing_behind(tmp_path, way, ranks):
    """Of one rank; and of all ranks with their launcher, which can clear up nothing."""
    job = Ended(tmp_path, 2, way, send(signal.SIGKILL, *ranks))
    assert job.code != 0 and in_time(job.seconds, 5) and not job.left, job
    assert "Traceback" not in job.err, job
    if IS_MPICH:
        assert not shared_files(tmp_path)


@needs_mpich("stops the process by which MPICH's launcher looks after the ranks")
@pytest.mark.parametrize("arena", ["1", pytest.param("", marks=pytest.mark.full)])
def test_survivors_name_the_dead(tmp_path, arena):
    """The launcher does not come to end the job."""

    def words():
        return "".join((tmp_path / f"stderr{rank}").read_text() for rank in range(3))

    def deed(job):
        os.kill(job.parents[0], signal.SIGSTOP)
        try:
            os.kill(job.pids[2], signal.SIGKILL)
            assert until(lambda: "spmd_grid: " in words(), 3)
        finally:
            os.kill(job.parents[0], signal.SIGCONT)

    # Words of their own: a launcher that finds the job ended may drop what it has not read yet.
    environment = {"KEEP_STDERR": "1"} | ({"SPMD_GRID_RANKS_PER_NODE": "3"} if arena else {})
    job = Ended(tmp_path, 3, "recv", deed, environment)
    assert job.code != 0 and not job.left, job
    job.err = words()
    (report,) = reports(job)
    died = r"rank 2 of 3 died \(killed from outside, or crashed\) while rank 1 \(1,\) waits in recv.* at app\.py:\d+"
    assert re.search(died, report), job


@needs_mpiexec
@pytest.mark.parametrize("end", ["returns", "raises", pytest.param("exits", marks=pytest.mark.full)])
def test_other_ends_leave_nothing_behind(tmp_path, end):
    program = tmp_path / "app.py"
    program.write_text(
        "import sys\nimport spmd_grid as sg\ngrid = sg.init_grid((-1,))\n"
        f"{KEEP_MAPS}\nsg.all_reduce(1, grid, [0], 'sum')\n"
        "if grid.rank == 1 and sys.argv[1] == 'raises':\n    raise ValueError('on purpose')\n"
        "if grid.rank == 1 and sys.argv[1] == 'exits':\n    sys.exit(3)\n"
        "if sys.argv[1] != 'returns':\n    sg.all_reduce(1, grid, [0], 'sum')\n"
    )
    job = run_job("mpiexec", 3, program, end)
    assert (job.code != 0) == (end != "returns"), job
    if IS_MPICH:
        assert not shared_files(tmp_path)


TWO_FAIL = """
import sys
import spmd_grid as sg

def fail(depth):
    if depth:
        fail(depth - 1) if depth % 2 else fail(depth - 1)
    raise ValueError(f"rank {grid.rank} " + 3000 * "x")

grid = sg.init_grid((-1,))
sg.all_reduce(1, grid, [0], "sum")
fail(40)
"""


@needs_mpiexec
def test_ranks_that_fail_together_do_not_talk_across_one_another(tmp_path):
    program = tmp_path / "app.py"
    program.write_text(TWO_FAIL)
    job = run_job("mpiexec", 3, program)
    pieces = job.err.split("spmd_grid: ")[1:]
    assert job.code != 0 and pieces, job
    for piece in pieces:
        rank = re.match(r"rank (\d) \(\d,\) of 3 failed\n", piece)[1]
        assert piece.count("Traceback") == 1 and f"ValueError: rank {rank} {3000 * 'x'}\n" in piece, job
