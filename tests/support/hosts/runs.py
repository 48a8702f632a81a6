"""Runs on hosts, for tests."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.jobs import clean_environment, mpi_command
from support.patience import run_in_time

__all__ = ["CLUSTER", "Run", "no_memfd", "run_on_hosts", "skip_without_hosts"]

CLUSTER = Path(__file__).resolve().parents[3] / "scripts" / "cluster"


class Run:
    """A run that has ended: exit code, output, seconds; ``left``: lines about each node; ``dead``: nodes that died."""

    def __init__(self, words: list[str], limit: float, environment: dict[str, str]):
        began = time.monotonic()
        # The ``python`` and ``mpiexec`` of these tests, also where their environment is not activated.
        path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        environment = clean_environment(**{"PATH": path, **environment})
        done = run_in_time([sys.executable, CLUSTER, *words], env=environment, limit=limit)
        self.seconds = time.monotonic() - began
        self.code, self.out = done.returncode, done.stdout
        ours = [line.removeprefix("cluster: ") for line in done.stderr.splitlines() if line.startswith("cluster: ")]
        others = [line for line in done.stderr.splitlines(keepends=True) if not line.startswith("cluster: ")]
        self.err = "".join(line for line in others if _OF_LAUNCHER not in line)
        self.notes = ours
        self.ended = next((float(found[1]) for line in ours if (found := _ENDED.match(line))), None)
        left = [line for line in ours if re.match(r"node\d+: ", line)]
        self.dead = [line.partition(":")[0] for line in left if line.endswith(": it is dead")]
        self.left = [line for line in left if not line.endswith((": nothing is left", ": it is dead"))]

    def since(self, action: str) -> float:
        """Seconds from an action (``--at``) to the end of the command."""
        moments = [float(line.partition(" ")[0]) for line in self.notes if line.endswith(f" s: {action}")]
        return self.ended - moments[-1]

    def __repr__(self) -> str:
        notes = "\n".join(self.notes)
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}\n--- cluster\n{notes}"


# Open MPI's launcher and the process that it has started may both set its group; then it warns, and all goes well.
_OF_LAUNCHER = "plm:ssh: Warning: setpgid("
_ENDED = re.compile(r"ended with exit code \d+ after ([\d.]+) s")


def no_memfd(host: str) -> str:
    """The text of a ``sitecustomize.py`` that takes a call of the system away on one host."""
    return (
        "import os, socket\n"
        "def refused(*arguments):\n"
        "    raise OSError(38, 'Function not implemented')\n"
        f"if socket.gethostname() == {host!r}:\n"
        "    os.memfd_create = refused\n"
    )  # fmt: skip


@functools.cache
def _refusal() -> str:
    if not mpi_command():
        return f"hosts inside this machine need an mpiexec beside {sys.executable}"
    tried = subprocess.run([sys.executable, CLUSTER, "check"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else tried.stderr.strip().removeprefix("cluster: ")


def skip_without_hosts() -> None:
    """Skips the test where there can be no hosts, and says why."""
    if _refusal():
        pytest.skip(_refusal())


def run_on_hosts(*words: object, limit: float = 60.0, action: str = "run", **environment: str) -> Run:
    """Runs `scripts/cluster run` (or exec) with these words; skips the test where there can be no hosts."""
    skip_without_hosts()
    # What ends with the job may need some time on a busy machine; where nothing is left, nothing is waited for.
    options = ["--leftovers", "--settle", "10", "--limit", str(8 * limit)]
    return Run([action, *options, *map(str, words)], limit, environment)
