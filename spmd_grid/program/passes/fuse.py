"""Small collectives that do not need each other run as one.

all_reduces over the same axes travel in one message, cells after cells; halos of several fields of one layout in one
exchange.  What the later ones need is computed earlier, as long as no more memory is needed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.memory import local_bytes, peak_bytes
from spmd_grid.program.partition.steps import Compute, Move, Step
from spmd_grid.program.passes.rewriting import price
from spmd_grid.reshard.planner.steps import ALL_REDUCE, EXCHANGE

__all__ = ["fused"]

# The most bytes that a process receives, or combines, in what is fused: longer messages gain nothing.
_MOST_BYTES = 1 << 16
# What peak memory may grow by, as a factor, besides the messages.
_MOST_MEMORY = 1.05


def fused(schedule: Schedule) -> Schedule:
    """The schedule with small independent moves side by side, to be run together."""
    number, at = 0, 0
    while at < len(schedule.steps):
        step = schedule.steps[at]
        key = _key(step)
        together = [] if key is None else _companions(schedule.steps, at, key)
        if together:
            new, first = _gathered(schedule, at, together, number + 1)
            if peak_bytes(new) <= _MOST_MEMORY * peak_bytes(schedule) + 2 * _MOST_BYTES:
                schedule, number, at = new, number + 1, first + len(together)
        at += 1
    return schedule


def _key(step: Step) -> Hashable:
    """Equal for moves that may run together; None for others."""
    if not isinstance(step, Move) or step.together or not price(step.source, step.target)[0]:
        return None
    sharding, (*others, last) = step.source.sharding, step.plan.steps
    if last.kind == ALL_REDUCE and not others and not sharding.halo_sizes and not step.target.sharding.halo_sizes:
        return ALL_REDUCE, last.grid_axes, sharding.partial_kind, step.source.dtype
    if last.kind == EXCHANGE and not others:
        return EXCHANGE, sharding, step.target.sharding, step.source.shape
    return None


def _companions(steps: Sequence[Step], at: int, key: Hashable) -> list[int]:
    """The numbers of later moves with the same key that need no result of each other."""
    first = steps[at]
    assert isinstance(first, Move)  # it has a key
    dependent = {id(first.target)}
    total, found = _size(first), []
    if total > _MOST_BYTES:
        return []
    for number in range(at + 1, len(steps)):
        step = steps[number]
        if any(id(x) in dependent for x in step.inputs):
            dependent |= {id(x) for x in step.results}
        elif isinstance(step, Move) and _key(step) == key and total + _size(step) <= _MOST_BYTES:
            total += _size(step)
            found.append(number)
            dependent.add(id(step.target))
        elif isinstance(step, Compute) and step.exchanges is not None:
            break  # a communication that finds its partners as it runs keeps its place
    return found


def _size(move: Move) -> int:
    """The bytes that a process receives at most; of an all_reduce those that it combines."""
    is_exchange = move.plan.steps[-1].kind == EXCHANGE
    return move.plan.totals().most_received if is_exchange else local_bytes(move.source)


def _gathered(schedule: Schedule, at: int, together: list[int], number: int) -> tuple[Schedule, int]:
    """The schedule with the moves side by side, after what they need, and the place of the first."""
    steps = schedule.steps
    needed = {id(steps[each].inputs[0]) for each in together}
    before: list[Step] = []
    for each in reversed(range(at, together[-1])):
        step = steps[each]
        if each not in together and each != at and any(id(x) in needed for x in step.results):
            before.append(step)
            needed |= {id(x) for x in step.inputs}
    moved = {id(each) for each in before} | {id(steps[each]) for each in (at, *together)}
    side_by_side = [_marked(steps[each], number) for each in (at, *together)]
    after = [each for each in steps[at:] if id(each) not in moved]
    new = [*steps[:at], *reversed(before), *side_by_side, *after]
    return replace(schedule, steps=tuple(new)), at + len(before)


def _marked(step: Step, number: int) -> Step:
    assert isinstance(step, Move)  # it has a key
    return replace(step, together=number)
