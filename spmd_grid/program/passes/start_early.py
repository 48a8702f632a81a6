"""Communication started early and waited for late, so that computation hides it.

    b = all_gather(a)                start b = all_gather(a)        right after a
    c = f(x)                becomes  c = f(x)
    d = b @ c                        wait for b                     right before its first use
                                     d = b @ c

where computation lies between, and hides more seconds than a start costs, by the models.  All processes run the same
steps, so they start and wait in one order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.memory import peak_bytes
from spmd_grid.program.partition.started_moves import can_start
from spmd_grid.program.partition.steps import Compute, Move, Step, Wait
from spmd_grid.program.partition.work import hidden_seconds

__all__ = ["started_early"]

# What a start and a wait cost more than a call that does both.
LEAST_SECONDS = 20e-6
# What peak memory may grow by, as a factor.
_MOST_MEMORY = 1.5


def started_early(schedule: Schedule, least: float = LEAST_SECONDS) -> Schedule:
    """The schedule with moves started as soon as their operand is ready, where more than ``least`` seconds are hidden.

    A move that would hold too much memory for long is started later, or stays whole.
    """
    most = _MOST_MEMORY * peak_bytes(schedule)
    for move in [step for step in schedule.steps if isinstance(step, Move)]:
        if move.plan.seconds > least and can_start(move):
            for new, started in _started(schedule, move):
                if hidden_seconds(new.steps)[id(started)] <= least:
                    break
                if peak_bytes(new) <= most:
                    schedule = new
                    break
    return schedule


def _started(schedule: Schedule, move: Move) -> Iterator[tuple[Schedule, Move]]:
    """The schedule with the move in two halves, begun as early as can be, then ever later; with the first half."""
    steps = [each for each in schedule.steps if each is not move]
    use = _first_use(steps, move)
    first = _ready(steps, move, use)
    computes = [at for at in range(first, use) if isinstance(steps[at], Compute)]
    later = [computes[len(computes) * quarter // 4] for quarter in (1, 2, 3)] if len(computes) > 3 else computes[1:]
    started = replace(move, is_started=True)
    for at in dict.fromkeys([first, *later]):
        new = (*steps[:at], started, *steps[at:use], Wait(started), *steps[use:])
        yield replace(schedule, steps=new), started


def _ready(steps: Sequence[Step], move: Move, use: int) -> int:
    """The position before the first computation after the step that makes the source.

    What else is sent before that computation goes first, since nothing hides it.
    """
    position = 0
    for number, step in enumerate(steps):
        made = step.move.target if isinstance(step, Wait) else None
        if made is move.source or any(each is move.source for each in step.results):
            position = number + 1
    while position < use and not isinstance(steps[position], Compute):
        position += 1
    return position


def _first_use(steps: Sequence[Step], move: Move) -> int:
    """The position before the first step that reads the target: the end, where only the caller does."""
    for number, step in enumerate(steps):
        if any(each is move.target for each in step.inputs):
            while _are_together(steps, number):
                number -= 1
            return number
    return len(steps)


def _are_together(steps: Sequence[Step], position: int) -> bool:
    """Whether the steps before and after a position are moves that run as one."""
    if not 0 < position < len(steps):
        return False
    before, after = steps[position - 1], steps[position]
    return isinstance(before, Move) and isinstance(after, Move) and 0 < before.together == after.together
