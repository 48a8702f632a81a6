"""Starts a benchmark on MPI's processes with the launcher that belongs to this Python's MPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from spmd_grid.errors import TransportError
from spmd_grid.numerals import is_natural

__all__ = ["inside_a_job", "is_of_a_job", "launch_command", "launch_words", "on_ranks", "python_path"]

# How launchers tell their processes how many there are.
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS")
_PREFIXES = "PMI", "PMIX", "OMPI_", "MPI_", "MPIR_", "HYDRA", "HYDI", "PRTE", "SLURM_"  # of what launchers tell
_OPEN_MPI = ("Open MPI", "OpenRTE", "prterun", "PRRTE")
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_LOAD_MPI = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI"


def inside_a_job(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a launcher has started this process as one of several."""
    return any(is_natural(environment.get(name, "")) and int(environment[name]) > 1 for name in _SIZES)


def is_of_a_job(variable: str) -> bool:
    """Whether a launcher may have set it, so that a process that is not of the job should not see it."""
    return variable.startswith(_PREFIXES)


def python_path() -> str:
    """The PYTHONPATH with which another process finds this package."""
    package_folder = str(Path(__file__).resolve().parents[3])
    return os.pathsep.join([package_folder, *filter(None, [os.environ.get("PYTHONPATH")])])


def on_ranks(ranks: int, arguments: Sequence[str]) -> int:
    """Runs ``python -m spmd_grid arguments`` on so many MPI processes; the job's exit code.

    Local.  Raises `TransportError` where there is no launcher or no MPI.
    """
    command, more = launch_command(ranks)
    _check_mpi()
    environment = {**os.environ, **more, "PYTHONPATH": python_path()}
    job = subprocess.Popen([*command, sys.executable, "-m", "spmd_grid", *arguments], env=environment)
    try:
        return job.wait()
    except KeyboardInterrupt:  # the launcher has been interrupted as well, and ends its processes
        job.wait()
        return 130


def launch_command(ranks: int, executable: str = sys.executable) -> tuple[list[str], dict[str, str]]:
    """The launcher's words up to the program, and what its environment needs besides.

    Local.  The launcher beside Python is preferred: it came with the MPI library of the same environment.
    """
    launcher = shutil.which("mpiexec", path=str(Path(executable).parent)) or shutil.which("mpiexec")
    if launcher is None:
        raise TransportError(
            f"there is no mpiexec beside {executable} or in PATH; 'pip install \"spmd-grid[mpich]\"' brings one"
        )
    done = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=False)
    words, more = launch_words(launcher, done.stdout + done.stderr)
    return [*words, "-n", str(ranks)], more


def launch_words(launcher: str, version: str) -> tuple[list[str], dict[str, str]]:
    """How a launcher that calls itself ``version`` starts more ranks than cores, as root too: words, environment.

    Local.
    """
    words, more = [launcher], {}
    if any(name in version for name in _OPEN_MPI):
        words.append("--oversubscribe")
        if getattr(os, "geteuid", lambda: 1)() == 0:
            more = _AS_ROOT
    return words, more


def _check_mpi() -> None:
    """Loads MPI in a process of its own, since here it would mark the environment of what is started."""
    done = subprocess.run([sys.executable, "-c", _LOAD_MPI], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise TransportError(
            f"MPI cannot be loaded ({reason}); install one with 'pip install \"spmd-grid[mpich]\"', or load the"
            " cluster's"
        )
