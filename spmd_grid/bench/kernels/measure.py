"""The kernel benchmark: the compiled kernels alone, beside what numpy does with the same arrays, in one process."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from spmd_grid.bench.common.machine import machine
from spmd_grid.bench.common.rows import markdown_table
from spmd_grid.bench.kernels.cases import KernelCase

__all__ = ["run_bench"]

_BATCH_SECONDS = 2e-4  # calls that take less are timed many at a time


def run_bench(cases: Sequence[KernelCase], rounds: int, json_path: str = "", markdown_path: str = "") -> None:
    """Measures and prints the rows of ``cases``.  Local."""
    setting = machine()
    place = f"one process on {setting['processor']}, numpy {np.__version__}"
    _say(f"{place}; medians over {rounds} interleaved rounds, microseconds per call\n")
    _say(f"{'kernel':58s}{'ours':>11s}{'(10-90 %)':>20s}{'numpy':>11s}{'ratio':>8s}{'goal':>7s}")
    rows = []
    for case in cases:
        rows.append(row := _measured(case, rounds))
        spread = f"({row['low']:.2f}-{row['high']:.2f})"
        mark = "" if row["ratio"] >= row["goal"] else "  missed"
        line = f"{row['name']:58s}{row['ours']:11.2f}{spread:>20s}{row['numpy']:11.2f}{row['ratio']:8.2f}"
        _say(f"{line}{row['goal']:7.2f}{mark}")
    verdict = f"{sum(row['ratio'] >= row['goal'] for row in rows)} of {len(rows)} rows reach their goal"
    _say("", verdict)
    if json_path:
        figures = {**setting, "rounds": rounds, "rows": rows, "summary": [verdict]}
        Path(json_path).write_text(json.dumps(figures, indent=1) + "\n")
    if markdown_path:
        lines = [[row["name"], *(f"{row[key]:.2f}" for key in ("ours", "numpy", "ratio", "goal"))] for row in rows]
        table = markdown_table(["kernel", "ours, us", "numpy, us", "ratio", "goal"], lines)
        caption = f"Kernels by {place}; medians of `python -m spmd_grid bench kernels`."
        Path(markdown_path).write_text("\n".join([caption, "", *table, "", verdict]) + "\n")


def _measured(case: KernelCase, rounds: int) -> dict:
    calls = case.make()
    loops = [_loops(call) for call in calls]
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for call, count, taken in zip(calls, loops, times, strict=True):
            taken.append(_seconds(call, count))
    ours, numpys = (median(taken) * 1e6 for taken in times)
    low, high = np.percentile(np.array(times[0]) * 1e6, [10, 90]).tolist()
    figures = {"ours": ours, "low": low, "high": high, "numpy": numpys, "ratio": numpys / ours, "goal": case.goal}
    return {"name": case.name, **figures}


def _loops(call: Callable[[], object]) -> int:
    call()  # compiled, and its pages touched
    return max(1, int(_BATCH_SECONDS / _seconds(call, 1)))


def _seconds(call: Callable[[], object], count: int) -> float:
    began = perf_counter()
    for _ in range(count):
        call()
    return (perf_counter() - began) / count


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)
