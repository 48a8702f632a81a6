"""Passes: schedules that move fewer bytes and compute the same.

PASSES lists them in order: name, function from schedule to schedule, and whether the order of sums stays.

compose       moves from the sharding that costs the least
duplicates    common subexpressions
reassociate   contributions combined after the operations that may be applied to them
linear        which operations those are
gathers       cells gathered after the operations that may work on blocks
halos         borders for several slices in one exchange
fuse          small collectives that run as one
start_early   moves begun as soon as their operand is ready, and waited for before their result is read
dead          steps that nothing needs
rewriting     tools of all of them
"""

from __future__ import annotations

from collections.abc import Callable

from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.passes.compose import composed, composed_in_any_order
from spmd_grid.program.passes.dead import without_dead_steps
from spmd_grid.program.passes.duplicates import without_duplicates
from spmd_grid.program.passes.fuse import fused
from spmd_grid.program.passes.gathers import gathered_late
from spmd_grid.program.passes.halos import with_shared_halos
from spmd_grid.program.passes.reassociate import reassociated
from spmd_grid.program.passes.start_early import started_early

__all__ = ["PASSES"]

PASSES: list[tuple[str, Callable[[Schedule], Schedule], bool]] = [
    ("common subexpressions", without_duplicates, True),
    ("compose moves", composed, True),
    ("fold reductions", composed_in_any_order, False),
    ("reassociate reductions", reassociated, False),
    ("gather late", gathered_late, True),
    ("share halos", with_shared_halos, True),
    ("dead code", without_dead_steps, True),
    ("fuse collectives", fused, True),
    ("start early", started_early, True),
]
