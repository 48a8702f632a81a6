"""The choice of the path that bytes take, and the means to force it."""

import os
import subprocess
import sys

import numpy as np
import pytest
from support.jobs import run_job

import spmd_grid as sg
from spmd_grid.exchange.paths import DIRECT, INLINE, MESSAGE, MIXED, checked_path, chosen_path, path_for


class Group:
    def __init__(self, shares_memory):
        self.shares_memory = shares_memory


CHOICES = {
    ("auto", True): DIRECT,
    ("auto", False): MIXED,
    ("mixed", True): DIRECT,
    ("mixed", False): MIXED,
    ("direct", True): DIRECT,
    ("direct", False): MESSAGE,
    ("inline", True): INLINE,
    ("inline", False): INLINE,
    ("message", True): MESSAGE,
    ("message", False): MESSAGE,
}


@pytest.mark.parametrize(("name", "shares_memory"), CHOICES)
def test_the_path_of_a_group(name, shares_memory):
    assert path_for(Group(shares_memory), name) == CHOICES[name, shares_memory]


def test_forcing_ends_with_the_block():
    before = chosen_path()
    with sg.forced_path("message"):
        with sg.forced_path("inline"):
            assert chosen_path() == "inline"
        assert chosen_path() == "message"
        with pytest.raises(ZeroDivisionError), sg.forced_path("direct"):
            raise ZeroDivisionError
        assert chosen_path() == "message"
    assert chosen_path() == before


@pytest.mark.parametrize("name", ["fast", "", None, "Direct"])
def test_unknown_names(name):
    before = chosen_path()
    with pytest.raises(sg.TransportError, match="one of auto, direct, mixed, inline, message"), sg.forced_path(name):
        pass
    assert chosen_path() == before


@pytest.mark.parametrize(("name", "said"), [("message", "message"), ("fast", "SPMD_GRID_PATH is 'fast'")])
def test_environment(name, said):
    code = "from spmd_grid.exchange.paths import chosen_path; print(chosen_path())"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"SPMD_GRID_PATH": name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said in run.stdout + run.stderr
    assert (run.returncode == 0) == (name == "message")


ASKING = """
import os, sys
import numpy as np
import spmd_grid as sg
from spmd_grid.exchange.paths import chosen_path
from mpi4py import MPI

rank = MPI.COMM_WORLD.rank
said = sys.argv[1].split(",")[rank]
os.environ.pop("SPMD_GRID_PATH", None)
if said != "-":
    os.environ["SPMD_GRID_PATH"] = said
try:
    grid = sg.init_grid((-1,))
    assert sg.all_reduce(np.full(3000, rank), grid, [0])[0] == 1
    with sg.forced_path("inline"):
        pass
    found = chosen_path()
except sg.TransportError as error:
    found = error
sys.stdout.write(f"{rank} {found}\\n")  # in one piece
"""


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("-,message", "message"),
        (
            "auto,message",
            "SPMD_GRID_PATH is 'auto' on rank 0 and 'message' on rank 1; it must be the same on all processes, or set"
            " on some of them only",
        ),
        ("fast,-", "SPMD_GRID_PATH is 'fast'; it must be one of"),
    ],
)
def test_processes_agree_on_the_environment(tmp_path, asked, said):
    """A launcher may hand the environment to some processes only: those of its own host."""
    program = tmp_path / "asking.py"
    program.write_text(ASKING)
    job = run_job("mpiexec", 2, program, asked)
    lines = sorted(job.out.splitlines())
    assert len(lines) == 2 and all(line.startswith(f"{rank} {said}") for rank, line in enumerate(lines)), job


def test_paths_may_change_from_call_to_call(spmd):
    """Calls that were prepared for one path are not used for another."""

    def body(value):
        grid = sg.init_grid((2,))
        return sg.all_reduce(np.full(300, value + grid.rank), grid, [0], "sum")[-1]

    for path in ["auto", "direct", "inline", "message"]:
        with sg.forced_path(path):
            assert spmd(2, body, 10) == [21, 21]


def test_simulated_ranks_share_the_setting():
    def body():
        with sg.forced_path("message"):
            pass

    with pytest.raises(sg.SimulationError, match="put it around"):
        sg.run_spmd(body, ranks=2)


@pytest.mark.parametrize("name", [DIRECT, MIXED, INLINE, MESSAGE])
def test_a_path_from_the_environment_is_the_path(name):
    """Paths are compared by identity."""
    assert checked_path("".join(list(name)), "SPMD_GRID_PATH") is name
