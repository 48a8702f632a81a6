"""Passes: schedules that move fewer bytes and compute the same.

PASSES lists them in order: name, function from schedule to schedule, and whether the order of sums stays.
"""

from __future__ import annotations

from collections.abc import Callable

from spmd_grid.program.partition.materialise import Schedule

__all__ = ["PASSES"]

PASSES: list[tuple[str, Callable[[Schedule], Schedule], bool]] = []
