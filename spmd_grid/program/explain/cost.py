"""The cost of a schedule: bytes, seconds, work done by several devices alike, and memory, by models.

    communication   the model of the links, step by step, as `plan_reshard` has it
    computation     the longer of its floating-point operations and its passes over memory
    operations      one per cell that an operation computes; two per step of a contraction

They serve to compare ways, not to predict times.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from spmd_grid.program.explain.communications import bytes_per_axis, communications_of
from spmd_grid.program.ir import Operation
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.memory import local_bytes, peak_bytes
from spmd_grid.program.partition.steps import Compute
from spmd_grid.reshard.planner.cost import LinkModel

__all__ = ["ProgramCost", "cost_of"]

_FLOPS = 2e10  # per second and process: what one core of a server does in matrix products


class ProgramCost(NamedTuple):
    """The cost of a run, for the busiest process, by models.

    ``received``: bytes from other processes; ``bytes_per_axis``: the same by grid axis, where a communication over
    several axes counts for each.  ``flops``: floating-point operations of the process; ``redundant_flops``: those of
    them that other processes do on the same cells as well, and that more cuts would save.  ``peak_bytes``: the most
    memory for values and messages.  ``seconds``: communication and computation, one after the other.
    """

    received: int
    bytes_per_axis: tuple[int, ...]
    flops: int
    redundant_flops: int
    peak_bytes: int
    seconds: float
    communications: int


def cost_of(schedule: Schedule) -> ProgramCost:
    """The cost of a schedule.  Local; takes no longer for a million devices."""
    communications = communications_of(schedule)
    flops = redundant = 0
    seconds = sum(each.seconds for each in communications)
    for step in schedule.steps:
        if not isinstance(step, Compute):
            continue
        own, wasted = _flops(step)
        flops, redundant = flops + own, redundant + wasted
        touched = sum(local_bytes(x) for x in (*step.inputs, *step.results))
        seconds += max(own / _FLOPS, touched / LinkModel().memory_bandwidth)
    return ProgramCost(
        sum(each.received for each in communications),
        bytes_per_axis(schedule.grid.ndim, communications),
        flops,
        redundant,
        peak_bytes(schedule),
        seconds,
        len(communications),
    )


def _flops(step: Compute) -> tuple[int, int]:
    """The work of the busiest device, and the part of it that others do as well."""
    splits, operation = step.splits, step.operation
    if splits is None or operation.key == "constrain":
        return 0, 0
    iterators, shape = operation.interface.iterators, splits.grid.shape
    sizes = [prod(shape[axis] for axis in axes) for axes in splits.axes]
    own = _per_step(operation)
    for iterator, n, starts in zip(iterators, sizes, splits.offsets):
        longest = max(b - a for a, b in zip(starts, starts[1:])) if starts else -(-iterator.extent // n)
        own *= longest
    copies = splits.grid.size // prod(sizes)
    return own, own - own // copies


def _per_step(operation: Operation) -> int:
    is_contraction = any(each.is_reduction for each in operation.interface.iterators) and len(operation.values) > 1
    return 2 if is_contraction else 1
