"""Common subexpressions: computations of one function on the same blocks, and moves of one value to one sharding.

Marks on the users of a value (`constrain`) have been heeded when values were placed, and go too.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from spmd_grid.program.ir import Constant
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.steps import Compute, LocalOperand, Move, Step
from spmd_grid.program.passes.rewriting import substituted

__all__ = ["without_duplicates"]


def without_duplicates(schedule: Schedule) -> Schedule:
    """The schedule with each computation and each move made once."""
    found: dict[Hashable, Step] = {}
    same: dict[int, LocalOperand] = {}
    kept: list[Step] = []
    for step in schedule.steps:
        (step,) = substituted([step], same)
        if _is_identity(step):
            same[id(step.results[0])] = step.inputs[0]
            continue
        key = _key(step)
        first = found.setdefault(key, step) if key is not None else step
        if first is step:
            kept.append(step)
        else:
            same |= {id(ours): theirs for ours, theirs in zip(step.results, first.results)}
    results = tuple([same.get(id(each), each) for each in schedule.results])
    return replace(schedule, steps=tuple(kept), results=results)


def _is_identity(step: Step) -> bool:
    """Whether a step is a mark on its operand's users, and computes nothing."""
    return isinstance(step, Compute) and step.operation.key == "constrain" and len(step.inputs) == 1


def _key(step: Step) -> Hashable:
    """Equal for steps that give equal blocks; None where this is not known."""
    if isinstance(step, Move):
        return "move", id(step.source), step.target.sharding
    if not isinstance(step, Compute) or step.key is None:
        return None
    key = step.name, step.key, tuple(map(_operand_key, step.operands)), _kinds(step)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _kinds(step: Compute) -> Any:
    return tuple([(each.shape, each.dtype, each.sharding) for each in step.results])


def _operand_key(x: LocalOperand) -> Hashable:
    if isinstance(x, Constant) and not x.shape:
        return type(x.value), np.asarray(x.value).dtype, np.asarray(x.value).tobytes()
    return id(x.value) if isinstance(x, Constant) else id(x)
