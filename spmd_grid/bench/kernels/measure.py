"""The kernel benchmark: compiled kernels and numpy on the same arrays, in one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter

import numpy as np

from spmd_grid.bench.common.machine import machine
from spmd_grid.bench.common.report import Outputs, say, write_files
from spmd_grid.bench.kernels.cases import KernelCase
from spmd_grid.bench.kernels.report import KernelRow, summary, table

__all__ = ["run_bench"]

_BATCH_SECONDS = 2e-4  # shorter calls are timed several at a time


def run_bench(cases: Sequence[KernelCase], rounds: int, outputs: Outputs) -> None:
    """Measure and print the rows of ``cases``.  Local."""
    setting = machine()
    machine_text = f"one process on {setting['processor']}, numpy {np.__version__}"
    say(f"{machine_text}; medians over {rounds} interleaved rounds, time per call", "", table().head())
    rows = []
    for case in cases:
        rows.append(_measured(case, rounds))
        say(table().line(rows[-1]))
    say("", *summary(rows))
    caption = f"Kernels by {machine_text}; medians of `python -m spmd_grid bench kernels`."
    write_files(outputs, setting | {"rounds": rounds}, caption, table(), rows, summary(rows))


def _measured(case: KernelCase, rounds: int) -> KernelRow:
    calls = case.make()
    counts = [_calls_per_batch(call) for call in calls]
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for call, count, taken in zip(calls, counts, times, strict=True):
            taken.append(_seconds(call, count))
    ours, numpys = (median(taken) * 1e6 for taken in times)
    low, high = np.percentile(np.array(times[0]) * 1e6, [10, 90]).tolist()
    return KernelRow(case, ours, low, high, numpys)


def _calls_per_batch(call: Callable[[], object]) -> int:
    call()  # compiled, and its pages touched
    return max(1, int(_BATCH_SECONDS / _seconds(call, 1)))


def _seconds(call: Callable[[], object], count: int) -> float:
    began = perf_counter()
    for _ in range(count):
        call()
    return (perf_counter() - began) / count
