"""Predicted and measured seconds side by side: the events of a trace matched with the communications of a program.

An event has the name of its move.  Several moves of one line may share a name; within a run of the program the first
event of a name is the first move's, and so on.  A run ends where a name comes once more than the program has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import NamedTuple

from spmd_grid.formatting import aligned, count_text, seconds_text
from spmd_grid.program.explain.communications import Communication, communications_of, communications_of_step
from spmd_grid.program.partition.bound_moves import is_collective
from spmd_grid.program.partition.joint_moves import in_company
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.steps import Move
from spmd_grid.watch.trace.reading import TracedOperation, read_trace

__all__ = ["Measurement", "measured", "measured_lines"]


class Measurement(NamedTuple):
    """Communications that are one event of a trace: ``predicted`` seconds, and those of the slowest process by run.

    ``numbers``: those of the communications in ``explain``, from 1.
    """

    numbers: tuple[int, ...]
    name: str
    predicted: float
    seconds: tuple[float, ...]


def measured(schedule: Schedule, folder: str | Path) -> list[Measurement]:
    """The communications of a schedule with their seconds in the runs that a trace has.  Local.  Raises OutputError."""
    events = _events(schedule)
    by_rank = [_runs(events, operations) for operations in read_trace(folder).operations.values()]
    found = []
    for at, (numbers, each) in enumerate(events):
        by_run = zip_longest(*[[run.get(at) for run in runs] for runs in by_rank])
        slowest = [max(known) for run in by_run if (known := [seconds for seconds in run if seconds is not None])]
        found.append(Measurement(numbers, each[0].name, sum(one.seconds for one in each), tuple(slowest)))
    return found


def measured_lines(schedule: Schedule, folder: str | Path) -> list[str]:
    """The table of predicted and measured seconds, by communication.  Local.  Raises OutputError."""
    found = measured(schedule, folder)
    runs = max([len(each.seconds) for each in found], default=0)
    rows = [["", "by the model", "measured", ""]]
    for each in found:
        numbers = "-".join(dict.fromkeys([str(each.numbers[0]), str(each.numbers[-1])]))
        seconds = seconds_text(median(each.seconds)) if each.seconds else "not found"
        rows.append([f"{numbers}.", seconds_text(each.predicted), seconds, each.name])
    return [f"seconds of the slowest process, median of {count_text(runs, 'traced run')}:", *aligned(rows, (0, 3))]


def _events(schedule: Schedule) -> list[tuple[tuple[int, ...], list[Communication]]]:
    """The events of a run of the program: each with the numbers of its communications, and these."""
    communications = communications_of(schedule)
    found, number = [], 0
    for count in _counts(schedule):
        numbers = tuple(range(number + 1, number + count + 1))
        found.append((numbers, communications[number : number + count]))
        number += count
    return found


def _counts(schedule: Schedule) -> Iterator[int]:
    """The number of communications of each event."""
    followers = {id(each) for moves in in_company(schedule.steps) for each in moves[1:]}
    for step in schedule.steps:
        if id(step) in followers:
            continue
        alone = list(communications_of_step(step))
        if isinstance(step, Move) and alone and not all(map(is_collective, step.plan.steps)):
            yield len(alone)  # the whole plan
        else:
            yield from [1] * len(alone)


def _runs(
    events: Sequence[tuple[tuple[int, ...], list[Communication]]], operations: Sequence[TracedOperation]
) -> list[dict[int, float]]:
    """The seconds of each event in each run of the program on one process."""
    positions: dict[str, list[int]] = {}
    for at, (_, each) in enumerate(events):
        positions.setdefault(f"'{each[0].name}'", []).append(at)
    runs: list[dict[int, float]] = []
    last: dict[str, int] = {}
    for operation in operations:
        name = next((each for each in positions if each in operation.call), None)
        if name is None:
            continue
        seconds = operation.took * 1e-6
        is_wait = operation.call.startswith("wait()") or operation.name.endswith(".wait")
        if is_wait and runs and name in last:  # the end of what was started
            runs[-1][last[name]] += seconds
            continue
        free = [at for at in positions[name] if runs and at not in runs[-1]]
        if not free:
            runs.append({})
            free, last = positions[name], {}
        runs[-1][free[0]] = seconds
        last[name] = free[0]
    return runs
