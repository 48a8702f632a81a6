"""How the doctor tries things: in processes of their own, with a time limit, whatever becomes of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from spmd_grid.bench.common.launch import launch_words, python_path

__all__ = ["MARK", "Launch", "Probe", "launchers", "probe", "run_limited", "start_ranks"]

MARK = "spmd_grid doctor: "  # before each line of a probe that is for the doctor
_GRACE_SECONDS = 1.5  # for a launcher to end its processes
_PROBE = "spmd_grid.cli.doctor.probe"


@dataclass
class Probe:
    """What a probe said, or what became of it."""

    said: dict = field(default_factory=dict)
    problem: str = ""


@dataclass
class Launch:
    """The launcher that works, or the last that was tried; those that do not, and why.

    ``broken``: what became of ranks that it has started, and that see each other, where these did not end well.
    """

    launcher: str | None = None
    works: bool = False
    broken: str = ""
    in_path: bool = False
    said: dict = field(default_factory=dict)
    failed: list[tuple[str, str]] = field(default_factory=list)


def probe(what: str, limit: float) -> Probe:
    """Runs a probe on its own.  Local."""
    heard, problem = _heard([sys.executable, "-m", _PROBE, what], {}, limit)
    return Probe(heard[-1], "") if heard else Probe({}, problem or "it has said nothing")


def start_ranks(ranks: int, limit: float) -> Launch:
    """Starts ranks with the mpiexec of PATH, and where that fails, with the one beside Python.  Local."""
    found = Launch()
    for launcher, in_path in launchers():
        found.launcher, found.in_path = launcher, in_path
        heard, problem = _launched(launcher, ranks, limit)
        measured = [said for said in heard if "latency" in said]
        sizes = [said["size"] for said in heard if said not in measured]
        if measured:
            found.works, found.said, found.broken = True, measured[0], ""
            break
        if sizes == [ranks] * ranks:
            found.broken = problem or "ended without a result"
            break
        if sizes and set(sizes) != {ranks}:
            problem = f"starts {ranks} programs that do not see each other: it belongs to another MPI"
        found.failed.append((launcher, problem or "ended without a result"))
    return found


def _launched(launcher: str, ranks: int, limit: float) -> tuple[list[dict], str]:
    code, *version = run_limited([launcher, "--version"], dict(os.environ), limit)
    if code is None:
        return [], f"did not end within {limit:g} s, asked for its version"
    words, more = launch_words(launcher, "".join(version))
    return _heard([*words, "-n", str(ranks), sys.executable, "-m", _PROBE, "ranks"], more, limit)


def launchers(path: str | None = None, executable: str = sys.executable) -> list[tuple[str, bool]]:
    """The mpiexec of PATH and the one beside Python, with whether it is that of PATH.  Local."""
    in_path = shutil.which("mpiexec", path=path)
    found = dict.fromkeys([in_path, shutil.which("mpiexec", path=str(Path(executable).parent))])
    return [(launcher, launcher == in_path) for launcher in found if launcher is not None]


def _heard(command: Sequence[str], more: dict, limit: float) -> tuple[list[dict], str]:
    """What the probes said, and what went wrong."""
    code, out, err = run_limited(command, {**os.environ, **more, "PYTHONPATH": python_path()}, limit)
    heard = []
    for line in out.splitlines():
        with suppress(ValueError):  # a line that was cut off
            heard += [json.loads(line.removeprefix(MARK))] if line.startswith(MARK) else []
    if code is None:
        return heard, f"did not end within {limit:g} s"
    return heard, "" if code == 0 else _reason(err) or _reason(out) or f"ended with exit code {code}"


def run_limited(command: Sequence[str], environment: dict, limit: float) -> tuple[int | None, str, str]:
    """Exit code (None: the time was up), output and errors.  Local.  Leaves no process of the command behind."""
    try:
        job = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return -1, "", str(error)
    with suppress(subprocess.TimeoutExpired):
        out, err = job.communicate(timeout=limit)
        return job.returncode, out, err
    for kill in (signal.SIGTERM, signal.SIGKILL):  # a launcher that is asked to end takes its processes with it
        with suppress(ProcessLookupError):
            os.killpg(job.pid, kill)
        with suppress(subprocess.TimeoutExpired):
            return None, *job.communicate(timeout=_GRACE_SECONDS)
    job.stdout.close()  # held open by somebody who left the group; nobody waits for that
    job.stderr.close()
    return None, "", ""


def _reason(text: str) -> str:
    """The line that says most: how a Python program ended, else the first that speaks of an error, else the last."""
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    raised = [line for line in lines if "Error: " in line][-1:]
    told = [line for line in lines if "error" in line.lower()]
    return (raised or told or lines[-1:] or [""])[0][:200]
