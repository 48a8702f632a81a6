"""The work of a schedule by a model: seconds of computations, and those of moves that computations hide.

computation   the longer of its floating-point operations and its passes over memory
operations    one per cell that an operation computes; two per step of a contraction
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from spmd_grid.links.model import LinkModel
from spmd_grid.program.ir import Operation
from spmd_grid.program.partition.memory import local_bytes
from spmd_grid.program.partition.steps import Compute, Move, Step, Wait

__all__ = ["flops_of", "hidden_seconds", "seconds_of"]

_FLOPS = 2e10  # per second and process: what one core of a server does in matrix products


def seconds_of(step: Compute) -> float:
    """The seconds of a computation on the busiest device."""
    touched = sum(local_bytes(x) for x in (*step.inputs, *step.results))
    return max(flops_of(step)[0] / _FLOPS, touched / LinkModel().memory_bandwidth)


def flops_of(step: Compute) -> tuple[int, int]:
    """The floating-point operations of the busiest device, and those of them that others do as well."""
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


def hidden_seconds(steps: Sequence[Step]) -> dict[int, float]:
    """For each started move (by identity), the seconds of it that pass while the process computes.

    A computation hides one move only: several that are under way share the links.
    """
    left: dict[int, float] = {}
    positions: dict[int, int] = {}
    found: dict[int, float] = {}
    for number, step in enumerate(steps):
        if isinstance(step, Move):
            positions[id(step)] = number
        elif isinstance(step, Wait):
            hidden, seconds = 0.0, step.move.plan.seconds
            for at in range(positions[id(step.move)], number):
                other = steps[at]
                if isinstance(other, Compute) and hidden < seconds:
                    free = left[at] if at in left else seconds_of(other)
                    taken = min(free, seconds - hidden)
                    left[at] = free - taken
                    hidden += taken
            found[id(step.move)] = hidden
    return found


def _per_step(operation: Operation) -> int:
    is_contraction = any(each.is_reduction for each in operation.interface.iterators) and len(operation.values) > 1
    return 2 if is_contraction else 1
