"""Starts whole programs as their users do: on simulated ranks, or with the mpiexec beside this Python."""

import functools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spmd_grid.errors import TransportError
from support.patience import run_in_time

MPIEXEC = Path(sys.executable).with_name("mpiexec")
# What a launcher tells its processes; a program started from one of them must not hear it.
_LAUNCHER_PREFIXES = ("PMI", "OMPI_", "PRTE_", "HYDRA_", "HYDI_", "MPIR_CVAR", "MPI_LOCAL", "SLURM_")
_TESTS = Path(__file__).resolve().parents[1]
_FOLDERS = [str(_TESTS.parent), str(_TESTS)]  # where programs find ``spmd_grid`` and ``support``


def clean_environment(**more):
    env = {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHER_PREFIXES)}
    env.pop("PYTHONUNBUFFERED", None)  # else print writes a line in pieces, and those of several processes mix
    paths = [*_FOLDERS, *filter(None, [env.get("PYTHONPATH")])]
    return {**env, "PYTHONPATH": os.pathsep.join(paths), **more}


@functools.cache
def _library():
    """The library whose launcher there is: Open MPI or MPICH; None without one."""
    if not MPIEXEC.exists():
        return None
    version = subprocess.run(
        [MPIEXEC, "--version"], capture_output=True, text=True, check=True, env=clean_environment()
    )
    is_open_mpi = any(name in version.stdout for name in ("Open MPI", "OpenRTE", "prterun"))
    return "Open MPI" if is_open_mpi else "MPICH"


def mpi_command():
    """The words before ``-n``, and what the environment needs; None without a launcher."""
    if _library() == "Open MPI":
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return [str(MPIEXEC), "--oversubscribe"], root
    return None if _library() is None else ([str(MPIEXEC)], {})


def is_mpich() -> bool:
    return _library() == "MPICH"


needs_mpiexec = pytest.mark.skipif(not MPIEXEC.exists(), reason=f"no mpiexec beside {sys.executable}")


def needs_mpich(reason):
    """The mark of tests that another library's launcher cannot pass."""
    return pytest.mark.skipif(not is_mpich(), reason=f"for MPICH: {reason}")


def of_mpi(name):
    """A module of the MPI transport, which needs an MPI library, though no launcher."""
    return pytest.importorskip(f"spmd_grid.transport.mpi.{name}", exc_type=TransportError)


# For programs that have a ``grid``: updates of halos in a compiled function, with something else in between.
COMPILED_LOOP = """
def compiled_loop(between, steps, nogil=False):
    from support.compiled import updates_free, updates_holding
    run = updates_free if nogil else updates_holding
    with sg.HaloExchange(grid, sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), (4 * grid.size,), "f8", True) as plan:
        u = np.ones(6)
        run(plan, u, 2)
        between()
        run(plan, u, steps)
"""


class Job:
    """A program that has ended: its exit code, what it printed, and when it ended."""

    def __init__(self, command, folder, **more):
        done = run_in_time(command, env=clean_environment(**more), cwd=folder, limit=120)
        self.ended = time.time()
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def __repr__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def run_job(transport, n, program, *args, python=(), environment=None):
    """Runs the program file on n ranks of "simulated" or "mpiexec"."""
    more = environment or {}
    program = Path(program)
    if transport == "simulated":
        return Job(
            [sys.executable, *python, "-m", "spmd_grid", "run", "-n", str(n), program, *args], program.parent, **more
        )
    found = mpi_command()
    if found is None:
        pytest.skip(f"no mpiexec beside {sys.executable}")
    words, root = found
    return Job([*words, "-n", str(n), sys.executable, *python, program, *args], program.parent, **root, **more)


def check_fine(tmp_path, n, text, *args, **environment):
    """Run the program ``text`` under mpiexec; check that it ends well and that its n ranks print "fine" alone."""
    program = tmp_path / "program.py"
    program.write_text(text)
    job = run_job("mpiexec", n, program, *args, environment=environment)
    assert (job.code, job.out.split(), job.err) == (0, ["fine"] * n, ""), job
