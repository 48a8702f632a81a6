"""Start a benchmark on MPI processes, with the launcher that belongs to this Python's MPI library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from spmd_grid.errors import TransportError
from spmd_grid.numerals import is_natural

__all__ = ["inside_a_job", "launch_command", "launcher_start", "on_ranks", "python_path", "set_by_launcher"]

# The variables by which launchers give their processes the number of processes.
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS")
_PREFIXES = (
    "PMI",
    "PMIX",
    "OMPI_",
    "MPI_",
    "MPIR_",
    "HYDRA",
    "HYDI",
    "PRTE",
    "SLURM_",
)  # of variables that launchers set
_OPEN_MPI = ("Open MPI", "OpenRTE", "prterun", "PRRTE")
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_LOAD_MPI = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI"


def inside_a_job(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a launcher started this process as one of several."""
    return any(is_natural(environment.get(name, "")) and int(environment[name]) > 1 for name in _SIZES)


def set_by_launcher(variable: str) -> bool:
    """Whether a launcher may have set ``variable``, which processes outside of the job must not see."""
    return variable.startswith(_PREFIXES)


def python_path() -> str:
    """The PYTHONPATH for other processes that are to import this package."""
    package_folder = str(Path(__file__).resolve().parents[3])
    return os.pathsep.join([package_folder, *filter(None, [os.environ.get("PYTHONPATH")])])


def on_ranks(ranks: int, arguments: Sequence[str]) -> int:
    """Run ``python -m spmd_grid arguments`` on ``ranks`` MPI processes; returns the job's exit code.

    Local.  Raises `TransportError` if there is no launcher or no MPI library.
    """
    command, more = launch_command(ranks)
    _check_mpi()
    environment = {**os.environ, **more, "PYTHONPATH": python_path()}
    job = subprocess.Popen([*command, sys.executable, "-m", "spmd_grid", *arguments], env=environment)
    try:
        return job.wait()
    except KeyboardInterrupt:  # the launcher is interrupted as well, and ends its processes
        job.wait()
        return 130


def launch_command(ranks: int, executable: str = sys.executable) -> tuple[list[str], dict[str, str]]:
    """The launcher's arguments up to the program, and the variables to add to its environment.

    Local.  Prefers the launcher beside Python, which came with the MPI library of the same environment.
    """
    launcher = shutil.which("mpiexec", path=str(Path(executable).parent)) or shutil.which("mpiexec")
    if launcher is None:
        raise TransportError(f"there is no mpiexec beside {executable} or in PATH; 'pip install mpich' installs one")
    done = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=False)
    arguments, more = launcher_start(launcher, done.stdout + done.stderr)
    return [*arguments, "-n", str(ranks)], more


def launcher_start(launcher: str, version: str) -> tuple[list[str], dict[str, str]]:
    """Arguments and variables with which a launcher starts more ranks than cores, also as root.

    Local.  ``version``: the launcher's output for ``--version``.
    """
    arguments, more = [launcher], {}
    if any(name in version for name in _OPEN_MPI):
        arguments.append("--oversubscribe")
        if getattr(os, "geteuid", lambda: 1)() == 0:
            more = _AS_ROOT
    return arguments, more


def _check_mpi() -> None:
    """Load MPI in a separate process: here it would change the environment of the processes to start."""
    done = subprocess.run([sys.executable, "-c", _LOAD_MPI], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise TransportError(
            f"MPI cannot be loaded ({reason}); install one with 'pip install mpich', or load that of the cluster"
        )
