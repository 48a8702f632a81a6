"""Dead steps: computations and moves whose results nothing needs."""

from __future__ import annotations

from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.passes.rewriting import computes_of, in_order, moves_of

__all__ = ["without_dead_steps"]


def without_dead_steps(schedule: Schedule) -> Schedule:
    """The schedule without steps that no result depends on; moves stand where they are first needed."""
    return in_order(schedule, computes_of(schedule), moves_of(schedule))
