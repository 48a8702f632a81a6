"""Attempts in separate processes, with a time limit."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spmd_grid.bench.common.launch import launcher_start, python_path
from spmd_grid.cli.doctor.hosts import SAYS_HOW, transport_in

__all__ = ["MARK", "Launch", "Probe", "launchers", "probe", "run_limited", "start_ranks", "transport"]

MARK = "spmd_grid doctor: "  # begins each line of a probe's findings
_GRACE_SECONDS = 1.5  # for a launcher to end its processes
_LONGEST = 400  # characters of a reason
_PROBE = "spmd_grid.cli.doctor.probe"


@dataclass
class Probe:
    """The findings of a probe, or the problem that it had."""

    found: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


@dataclass
class Launch:
    """The launcher that works, or the last one tried; ``failed``: the launchers that do not work, and why.

    ``broken``: the problem of ranks that it started and that see each other, but did not end well.
    """

    launcher: str | None = None
    works: bool = False
    broken: str = ""
    in_path: bool = False
    found: dict[str, Any] = field(default_factory=dict)
    failed: list[tuple[str, str]] = field(default_factory=list)


def probe(what: str, limit: float) -> Probe:
    """Run a probe in a separate process.  Local."""
    environment = {"PYTHONPATH": python_path()}
    reports, problem = _reports([sys.executable, "-m", _PROBE, what], environment, limit)
    return Probe(reports[-1], "") if reports else Probe({}, problem or "it printed nothing")


def start_ranks(ranks: int, limit: float, wanted: str | None = None) -> Launch:
    """Start ranks with the words ``wanted``, or the mpiexec in PATH, if that fails the one beside Python.  Local."""
    launch = Launch()
    found = [(shlex.quote(path), in_path) for path, in_path in launchers()] if wanted is None else [(wanted, True)]
    for launcher, in_path in found:
        launch.launcher, launch.in_path = launcher, in_path
        reports, problem = _launched(launcher, ranks, limit)
        measured = [report for report in reports if "latency" in report]
        sizes = [report["size"] for report in reports if report not in measured]
        if measured:
            launch.works, launch.found, launch.broken = True, measured[0], ""
            break
        if sizes == [ranks] * ranks:
            launch.broken = problem or "ended without a result"
            break
        if sizes and set(sizes) != {ranks}:
            problem = f"starts {ranks} programs that do not see each other: it belongs to another MPI"
        launch.failed.append((launcher, problem or "ended without a result"))
    return launch


def transport(launcher: str, ranks: int, limit: float) -> str:
    """The transport of messages between hosts, as the library tells when ranks meet; empty if it does not.  Local."""
    command, more = _start(launcher, ranks, limit)
    code, out, err = run_limited([*command, "network"], {**os.environ, **SAYS_HOW, **more}, limit)
    return transport_in(out + err) if code == 0 else ""


def _launched(launcher: str, ranks: int, limit: float) -> tuple[list[dict[str, Any]], str]:
    command, more = _start(launcher, ranks, limit)
    return _reports([*command, "ranks"], more, limit) if command else ([], f"--version did not end within {limit:g} s")


def _start(launcher: str, ranks: int, limit: float) -> tuple[list[str], dict[str, str]]:
    """The words that start a probe on ranks, and what the environment needs; no words if the launcher hangs."""
    words = shlex.split(launcher)
    code, *version = run_limited([*words, "--version"], dict(os.environ), limit)
    if code is None:
        return [], {}
    arguments, more = launcher_start(words[0], "".join(version))
    command = [*arguments, *words[1:], "-n", str(ranks), sys.executable, "-m", _PROBE]
    return command, {**more, "PYTHONPATH": python_path()}


def launchers(path: str | None = None, executable: str = sys.executable) -> list[tuple[str, bool]]:
    """The mpiexec in PATH and the one beside Python, each with whether it is the one in PATH.  Local."""
    in_path = shutil.which("mpiexec", path=path)
    found = dict.fromkeys([in_path, shutil.which("mpiexec", path=str(Path(executable).parent))])
    return [(launcher, launcher == in_path) for launcher in found if launcher is not None]


def _reports(command: Sequence[str], more: dict[str, str], limit: float) -> tuple[list[dict[str, Any]], str]:
    """The findings that probes printed, and the problem if there was one."""
    code, out, err = run_limited(command, {**os.environ, **more}, limit)
    reports: list[dict[str, Any]] = []
    for line in out.splitlines():
        with suppress(ValueError):  # a line that was cut off
            reports += [json.loads(line.removeprefix(MARK))] if line.startswith(MARK) else []
    if code is None:
        said = _reason("\n".join(line for line in err.splitlines() if "error" in line.lower()))
        return reports, f"did not end within {limit:g} s" + f": {said}" * bool(said)
    return reports, "" if code == 0 else _reason(err) or _reason(out) or f"ended with exit code {code}"


def run_limited(command: Sequence[str], environment: dict[str, str], limit: float) -> tuple[int | None, str, str]:
    """Exit code (None: it was cut off), output and errors of a command.  Local.  Leaves no process behind."""
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
    for pipe in filter(None, (job.stdout, job.stderr)):  # held open by a process that left the group
        pipe.close()
    return None, "", ""


def _reason(text: str) -> str:
    """The most telling line: the exception of a Python program, else the first line with "error", else the last."""
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalnum, line))]
    raised = [line for line in lines if "Error: " in line][-1:]
    named = [line for line in lines if "error" in line.lower()]
    return (raised or named or lines[-1:] or [""])[0][:_LONGEST]
