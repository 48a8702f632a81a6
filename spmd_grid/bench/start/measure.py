"""The benchmark of starting: what importing the package and the first operation take in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from spmd_grid.bench.common.launch import python_path
from spmd_grid.bench.common.machine import machine
from spmd_grid.bench.common.rows import Goal, markdown_table
from spmd_grid.bench.start.cases import StartCase
from spmd_grid.errors import TransportError

__all__ = ["StartRow", "goals", "run_bench"]

_PATIENCE = 300  # seconds for one process
_HEADS = "in a fresh process", "ms", "(10-90 %)", "goal"


@dataclass
class StartRow:
    """Milliseconds: the median, and where the middle 80 % lie."""

    case: StartCase
    ms: float
    low: float
    high: float

    def cells(self) -> list[str]:
        goal = "-" if self.case.most_ms is None else f"{self.case.most_ms:.0f}"
        return [self.case.name, f"{self.ms:.1f}", f"({self.low:.1f}-{self.high:.1f})", goal]


def run_bench(cases: Sequence[StartCase], rounds: int, json_path: str = "", markdown_path: str = "") -> None:
    """Measures and prints the rows of ``cases``.  Local."""
    setting = machine()
    place = f"one process on {setting['processor']}, Python {setting['python']}"
    said = "bytecode and compiled kernels kept from a run before; operations on 2 simulated ranks"
    _say(f"{place}; medians over {rounds} interleaved rounds; {said}", "", _line(_HEADS))
    rows = _measured(cases, rounds)
    _say(*[_line(row.cells()) for row in rows])
    lines = [goal.verdict(rows) for goal in goals()]
    _say("", *lines)
    if json_path:
        figures = [{"row": row.case.name, "ms": row.ms, "low": row.low, "high": row.high} for row in rows]
        found = {**setting, "rounds": rounds, "rows": figures, "summary": lines}
        Path(json_path).write_text(json.dumps(found, indent=1) + "\n")
    if markdown_path:
        table = markdown_table(_HEADS, [row.cells() for row in rows])
        caption = f"Starting, {place}; medians of `python -m spmd_grid bench start`; {said}."
        Path(markdown_path).write_text("\n".join([caption, "", *table, "", "```", *lines, "```"]) + "\n")


def goals() -> list[Goal]:
    def goal(title: str, begins: str) -> Goal:
        def is_among(case: StartCase) -> bool:
            return case.name.startswith(begins) and case.most_ms is not None

        return Goal(title, is_among, lambda row: row.ms / row.case.most_ms, 1.0, False, " of it")

    return [
        goal("150 ms to import, beyond numpy", "import"),
        goal("300 ms for a first operation, beyond numba", "first"),
    ]


def _measured(cases: Sequence[StartCase], rounds: int) -> list[StartRow]:
    """All cases in turns, each in a process of its own."""
    taken: dict[str, list[float]] = {case.name: [] for case in cases}
    changes = "SPMD_GRID_", "PYTHONDONTWRITEBYTECODE", "NUMBA_DISABLE_JIT"  # what is measured
    environment = {name: value for name, value in os.environ.items() if not name.startswith(changes)}
    # A folder of its own for bytecode: the package's may not be writeable, and would not be kept then.
    with TemporaryDirectory() as folder:
        environment |= {"PYTHONPYCACHEPREFIX": folder, "PYTHONPATH": python_path()}
        for case in cases:
            _milliseconds(case, environment)  # leaves bytecode and compiled kernels behind
        for _ in range(rounds):
            for case in cases:
                taken[case.name].append(_milliseconds(case, environment))
    return [StartRow(case, *np.percentile(taken[case.name], (50, 10, 90)).tolist()) for case in cases]


def _milliseconds(case: StartCase, environment: dict[str, str]) -> float:
    command = [sys.executable, "-c", case.program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise TransportError(f"{case.name}: {reason[0]}")
    return 1e3 * float(done.stdout)


def _line(cells: Sequence[str]) -> str:
    name, ms, spread, goal = cells
    return f"{name:36s}{ms:>9s}{spread:>18s}{goal:>8s}"


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)
