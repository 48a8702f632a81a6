"""The most memory that a device needs for a schedule, by the life of its values."""

from __future__ import annotations

from collections import defaultdict

from spmd_grid.program.ir import Constant
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.steps import LocalValue, Move, Wait
from spmd_grid.reshard.volume.totals import most_local

__all__ = ["local_bytes", "peak_bytes"]


def local_bytes(x: LocalValue) -> int:
    """The bytes of the largest local array, halos included.  Local."""
    return most_local(x.layout) * x.dtype.itemsize


def peak_bytes(schedule: Schedule) -> int:
    """The most bytes that a device holds at a time: values that are still needed, and the messages of a move.

    Local; an upper bound, found without a look at each device.  Arguments belong to the caller and stay; other values
    are let go after their last use.
    """
    last: dict[int, int] = {}
    for number, step in enumerate(schedule.steps):
        for each in (*step.inputs, *step.results):
            last[id(each)] = number
    kept = {id(x) for x in (*schedule.arguments, *schedule.results)}
    gone: dict[int, list[int]] = defaultdict(list)
    for value, number in last.items():
        if value not in kept:
            gone[number].append(value)
    sizes = {id(x): local_bytes(x) for x in schedule.arguments}
    sizes |= {id(x): local_bytes(x) for step in schedule.steps for x in step.results}
    held = sum(sizes[id(x)] for x in schedule.arguments)
    peak = held + sum(x.value.nbytes for x in schedule.results if isinstance(x, Constant) and x.shape)
    for number, step in enumerate(schedule.steps):
        held += sum(sizes[id(x)] for x in step.results)
        extra = 0
        if isinstance(step, Move):
            extra = _messages(step, sizes)
            if step.is_started:  # its messages are under way until the process waits for it
                held, extra = held + extra, 0
        peak = max(peak, held + extra)
        if isinstance(step, Wait):
            held -= _messages(step.move, sizes)
        held -= sum(sizes[value] for value in gone.get(number, ()))
    return peak


def _messages(move: Move, sizes: dict[int, int]) -> int:
    """The bytes that a move needs besides its two arrays."""
    return max(move.plan.totals().peak - sizes[id(move.source)] - sizes[id(move.target)], 0)
