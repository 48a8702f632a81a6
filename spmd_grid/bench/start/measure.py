"""The start benchmark: the time of importing the package, and of a first operation, in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from tempfile import TemporaryDirectory

import numpy as np

from spmd_grid.bench.common.launch import python_path
from spmd_grid.bench.common.machine import machine
from spmd_grid.bench.common.report import Outputs, one_process, say, write_files
from spmd_grid.bench.start.cases import StartCase
from spmd_grid.bench.start.report import StartRow, summary, table
from spmd_grid.errors import TransportError

__all__ = ["run_bench"]

_LONGEST = 300  # seconds for one process
_CONDITIONS = "bytecode and compiled kernels kept from an earlier run; operations on 2 simulated ranks"


def run_bench(cases: Sequence[StartCase], rounds: int, outputs: Outputs) -> None:
    """Measure and print the rows of ``cases``.  Local."""
    setting = machine()
    say(f"{one_process(setting)}; medians over {rounds} interleaved rounds; {_CONDITIONS}", "", table().head())
    rows = _measured(cases, rounds)
    say(*map(table().line, rows), "", *summary(rows))
    caption = f"Starting, {one_process(setting)}; medians of `python -m spmd_grid bench start`; {_CONDITIONS}."
    write_files(outputs, setting | {"rounds": rounds}, caption, table(), rows, summary(rows))


def _measured(cases: Sequence[StartCase], rounds: int) -> list[StartRow]:
    """Run all cases in turns, each in a separate process."""
    taken: dict[str, list[float]] = {case.name: [] for case in cases}
    changing = "SPMD_GRID_", "PYTHONDONTWRITEBYTECODE", "NUMBA_DISABLE_JIT"  # variables that change the times
    environment = {name: value for name, value in os.environ.items() if not name.startswith(changing)}
    # A separate folder for bytecode: the package's may be read-only, and then nothing would be kept.
    with TemporaryDirectory() as folder:
        environment |= {"PYTHONPYCACHEPREFIX": folder, "PYTHONPATH": python_path()}
        for case in cases:
            _milliseconds(case, environment)  # leaves bytecode and compiled kernels behind
        for _ in range(rounds):
            for case in cases:
                taken[case.name].append(_milliseconds(case, environment))
    return [StartRow(case, *np.percentile(taken[case.name], (50, 10, 90)).tolist()) for case in cases]


def _milliseconds(case: StartCase, environment: dict[str, str]) -> float:
    """Run the program of ``case``, which prints the seconds that it has measured, in a fresh process."""
    command = [sys.executable, "-c", case.program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_LONGEST, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise TransportError(f"{case.name}: {reason[0]}")
    return 1e3 * float(done.stdout)
