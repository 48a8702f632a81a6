"""Shared by passes: makers and users of a value, the bytes that a schedule moves, and steps put in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np

from spmd_grid.functions.interface import WHOLE
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Value
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.steps import Compute, LocalOperand, LocalValue, Move, Step
from spmd_grid.typing import Shape

__all__ = [
    "Links",
    "better",
    "bytes_received",
    "computes_of",
    "in_order",
    "moves_of",
    "price",
    "substituted",
    "work_of",
]

_VIEWS = "select", "view"  # parts of a lowering that compute nothing


class Links:
    """The makers and users of the values of a schedule, which are known by identity."""

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self.producer: dict[int, Step] = {id(each): step for step in schedule.steps for each in step.results}
        self._users: dict[int, list[Step]] = {}
        for step in schedule.steps:
            for each in {id(x): x for x in step.inputs}.values():
                self._users.setdefault(id(each), []).append(step)
        self.returned = {id(each) for each in schedule.results}

    def users(self, x: LocalValue) -> list[Step]:
        """The steps that read ``x``."""
        return self._users.get(id(x), [])

    def move_to(self, x: LocalOperand) -> Move | None:
        """The move that makes ``x``, if one does."""
        step = self.producer.get(id(x))
        return step if isinstance(step, Move) else None

    def compute_of(self, x: LocalOperand) -> Compute | None:
        """The computation that makes ``x``, if one does."""
        step = self.producer.get(id(x))
        return step if isinstance(step, Compute) else None

    def root(self, x: LocalValue) -> LocalValue:
        """The value of the same array that no move has made."""
        while (move := self.move_to(x)) is not None:
            x = move.source
        return x

    def is_used_once(self, x: LocalValue) -> bool:
        """Whether one step reads ``x``, and it is no result."""
        return len(self.users(x)) == 1 and id(x) not in self.returned


def computes_of(schedule: Schedule) -> list[Compute]:
    """The computations, in order."""
    return [step for step in schedule.steps if isinstance(step, Compute)]


def moves_of(schedule: Schedule) -> list[Move]:
    """The moves, in order."""
    return [step for step in schedule.steps if isinstance(step, Move)]


def price(source: LocalValue, target: LocalValue) -> tuple[int, float]:
    """The bytes that all processes receive together in a move, and its seconds by the model."""
    return _price(source.sharding, target.sharding, source.shape, source.dtype)


@lru_cache(4096)
def _price(source: Sharding, target: Sharding, shape: Shape, dtype: np.dtype) -> tuple[int, float]:
    held, wanted = (LocalValue(Value("", shape, dtype), shape, dtype, each) for each in (source, target))
    plan = Move(held, wanted, None).plan
    return plan.totals().received, plan.seconds


def bytes_received(steps: Iterable[Step]) -> int:
    """The bytes that all processes receive together in the moves among ``steps``."""
    return sum(price(step.source, step.target)[0] for step in steps if isinstance(step, Move))


def work_of(steps: Iterable[Step]) -> int:
    """The number of steps that iterators make on the busiest device, over all computations."""
    return sum(map(_work, (step for step in steps if isinstance(step, Compute))))


def _work(step: Compute) -> int:
    splits = step.splits
    if splits is None and step.name in _VIEWS:
        return 0
    if splits is None:
        found = step.results[0]
        return prod(-(-n // prod(found.sharding.sizes_of(d))) for d, n in enumerate(found.shape))
    extents = [each.extent for each in step.operation.interface.iterators if each.kind != WHOLE]
    axes = [axes for axes, each in zip(splits.axes, step.operation.interface.iterators) if each.kind != WHOLE]
    return prod(-(-n // prod(splits.grid.shape[axis] for axis in cut)) for n, cut in zip(extents, axes))


def better(new: Schedule, old: Schedule) -> bool:
    """Whether fewer bytes move, or as many in fewer moves or with less work; never more bytes, nor more moves for less.

    Work that grows is accepted only for fewer bytes.
    """
    measures = [
        (bytes_received(each.steps), sum(isinstance(step, Move) for step in each.steps), work_of(each.steps))
        for each in (new, old)
    ]
    (received, moves, work), (received_before, moves_before, work_before) = measures
    if received != received_before:
        return received < received_before
    return moves <= moves_before and work <= work_before and (moves, work) != (moves_before, work_before)


def in_order(schedule: Schedule, computes: Sequence[Compute], moves: Iterable[Move]) -> Schedule:
    """The schedule of these steps: computations in the order given, each move when its target is first needed.

    Moves and computations that nothing needs are left out.
    """
    by_target = {id(move.target): move for move in moves}
    needed = {id(each) for each in schedule.results}
    kept: list[Compute] = []

    def need(x: LocalValue) -> None:
        while id(x) not in needed:
            needed.add(id(x))
            move = by_target.get(id(x))
            if move is None:
                return
            x = move.source

    for x in schedule.results:
        if isinstance(x, LocalValue):
            needed.discard(id(x))
            need(x)
    for step in reversed(computes):
        if any(id(each) in needed for each in step.results):
            kept.append(step)
            for x in step.inputs:
                need(x)
    steps: list[Step] = []
    made: set[int] = set()

    def make(x: LocalOperand) -> None:
        move = by_target.get(id(x))
        if move is not None and id(x) not in made:
            made.add(id(x))
            make(move.source)
            steps.append(move)

    for step in reversed(kept):
        for x in step.inputs:
            make(x)
        steps.append(step)
    for result in schedule.results:
        make(result)
    return replace(schedule, steps=tuple(steps))


def substituted(steps: Iterable[Step], by: Mapping[int, LocalOperand]) -> Iterator[Step]:
    """The steps with operands replaced, by identity."""
    for step in steps:
        if isinstance(step, Move):
            source = by.get(id(step.source), step.source)
            assert isinstance(source, LocalValue)  # a value never becomes a constant
            yield step if source is step.source else replace(step, source=source)
        elif isinstance(step, Compute):
            operands = tuple([by.get(id(x), x) for x in step.operands])
            same = all(a is b for a, b in zip(operands, step.operands))
            yield step if same else replace(step, operands=operands)
