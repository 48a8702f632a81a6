"""The stages of a partitioned program as text."""

from __future__ import annotations

from typing import Protocol

from spmd_grid.errors import ShardingError
from spmd_grid.program.ir import Annotation, Program
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.propagate.solution import Solution
from spmd_grid.program.text.annotated import annotated_text, traced_text
from spmd_grid.program.text.scheduled import schedule_text

__all__ = ["STAGES", "stage_text"]

STAGES = "traced", "annotated", "materialised", "partitioned", "optimised"


class _Stages(Protocol):
    """The part of a `Partition` that its text needs."""

    program: Program
    solution: Solution
    materialised: Schedule
    schedule: Schedule
    annotations: tuple[Annotation, ...]
    args: str


def stage_text(part: _Stages, stage: str) -> str:
    """The text of one of the STAGES.  Raises ShardingError."""
    if stage == "traced":
        return traced_text(part.solution, part.annotations)
    if stage == "annotated":
        return annotated_text(part.solution)
    if stage == "materialised":
        return schedule_text(part.program, part.materialised, is_local=False)
    if stage in ("partitioned", "optimised"):
        schedule = part.materialised if stage == "partitioned" else part.schedule
        return schedule_text(part.program, schedule, is_local=True, slices=part.args == "global")
    raise ShardingError(f"text: stage is {stage!r}; it must be one of {', '.join(STAGES)}")
