"""The launchers of MPICH (Hydra) and Open MPI (PRRTE): what each must be told to reach the hosts."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from support.hosts import remote_shell
from support.hosts.host import TEMPORARY, Host
from support.hosts.options import Options
from support.hosts.system import STATE, ClusterError

__all__ = ["prepare_launcher"]

_ROOT = Path(__file__).resolve().parents[3]
# Of what a login shell has; the rest of the environment a launcher has to pass on itself.
_LOGIN = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "PYTHONPATH")


def prepare_launcher(options: Options, hosts: list[Host]) -> tuple[str | None, dict[str, str]]:
    """The mpiexec, None without one, and the environment in which it reaches all hosts.  Writes the files it needs."""
    environment = {**os.environ, "TMPDIR": TEMPORARY}
    mpiexec, is_open_mpi = _mpiexec(options.mpi)
    if mpiexec is not None:
        environment["PATH"] = f"{Path(mpiexec).parent}:{environment['PATH']}"
        agent, rows = STATE / "remote-shell", STATE / "hostfile"
        agent.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S -E {shlex.quote(remote_shell.__file__)} "$@"\n'
        )
        agent.chmod(0o755)
        fits = sum(options.ranks) <= len(options.cores)
        environment |= (_open_mpi if is_open_mpi else _mpich)(agent, rows, options.is_cyclic, fits)
        counts = zip(hosts, options.ranks, strict=True)
        if is_open_mpi:
            lines = [f"{host.name} slots={ranks}" for host, ranks in counts]
        else:
            lines = [f"{host.name}:{1 if options.is_cyclic else ranks}" for host, ranks in counts]
        rows.write_text("\n".join(lines) + "\n")
    login = {name: environment[name] for name in _LOGIN if name in environment}
    remote_shell.write_profile({**login, "TMPDIR": TEMPORARY})
    return mpiexec, environment


def _mpiexec(wanted: str | None) -> tuple[str | None, bool]:
    """The launcher of the library that is wanted, and whether that is Open MPI."""
    found = shutil.which("mpiexec")
    if found is not None and wanted in (None, _library(found)):
        return found, _library(found) == "openmpi"
    if wanted is None:
        return None, False
    # The environments of the tests stand side by side.
    roots = [_ROOT, *([] if found is None else Path(found).parents[2:3])]
    for of_tests in (root / f".venv-test-{wanted}" / "bin" / "mpiexec" for root in roots):
        if of_tests.exists():
            return str(of_tests), wanted == "openmpi"
    raise ClusterError(f"no mpiexec of {wanted} in PATH; 'scripts/test --mpi {wanted}' makes one in {roots[0]}")


def _library(mpiexec: str) -> str:
    version = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return "mpich" if "HYDRA" in version.stdout.upper() else "openmpi"


def _mpich(agent: Path, rows: Path, is_cyclic: bool, fits: bool) -> dict[str, str]:
    return {
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": str(agent),
        "HYDRA_HOST_FILE": str(rows),
        "HYDRA_IFACE": "eth0",
    }


def _open_mpi(agent: Path, rows: Path, is_cyclic: bool, fits: bool) -> dict[str, str]:
    return {
        "PRTE_MCA_plm_ssh_agent": str(agent),
        "PRTE_MCA_prte_default_hostfile": str(rows),
        "PRTE_MCA_prte_if_include": "eth0",
        "PRTE_MCA_rmaps_default_mapping_policy": f"{'node' if is_cyclic else 'slot'}:oversubscribe",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "OMPI_MCA_btl_tcp_if_include": "eth0",
        "OMPI_MCA_mpi_yield_when_idle": str(int(not fits)),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
