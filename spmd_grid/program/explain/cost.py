"""The cost of a schedule: bytes, seconds, work done by several devices alike, and memory, by models.

    communication   the model of the links, step by step, as `plan_reshard` has it
    computation     see ``partition/work.py``

The models serve to compare ways, not to predict times.
"""

from __future__ import annotations

from typing import NamedTuple

from spmd_grid.program.explain.communications import bytes_per_axis, communications_of
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.memory import peak_bytes
from spmd_grid.program.partition.steps import Compute
from spmd_grid.program.partition.work import flops_of, seconds_of

__all__ = ["ProgramCost", "cost_of"]


class ProgramCost(NamedTuple):
    """The cost of a run, for the busiest process, by models.

    ``received``: bytes from other processes; ``bytes_per_axis``: the same by grid axis, where a communication over
    several axes counts for each.  ``flops``: floating-point operations of the process; ``redundant_flops``: those of
    them that other processes do on the same cells as well, and that more cuts would save.  ``peak_bytes``: the most
    memory for values and messages.  ``seconds``: communication and computation, one after the other, but for
    communication that is started early and that computation hides.
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
    seconds = sum(each.seconds - each.hidden for each in communications)
    for step in schedule.steps:
        if not isinstance(step, Compute):
            continue
        own, wasted = flops_of(step)
        flops, redundant = flops + own, redundant + wasted
        seconds += seconds_of(step)
    return ProgramCost(
        sum(each.received for each in communications),
        bytes_per_axis(schedule.grid.ndim, communications),
        flops,
        redundant,
        peak_bytes(schedule),
        seconds,
        len(communications),
    )
