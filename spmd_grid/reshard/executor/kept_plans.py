"""The bound plans that a group of processes keeps for the next run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from spmd_grid.reshard.executor.bound_plan import BoundPlan

__all__ = ["KeptPlans"]

# Bound plans of one group of processes are kept while their buffers together are no larger than this.
_MOST_KEPT_BYTES = 1 << 30
_MOST_KEPT = 64


class KeptPlans(OrderedDict[Hashable, BoundPlan]):
    """Bound plans by plan and path, the last used at the end.  Local.

    All members of the group keep the same ones: what is given up depends only on the order of runs and on the plans.
    """

    n_bytes = 0

    def add(self, key: Hashable, bound: BoundPlan) -> None:
        """Keep ``bound``, and give up the oldest ones that no longer fit."""
        self[key] = bound
        self.n_bytes += bound.plan.kept_bytes
        while len(self) > 1 and (self.n_bytes > _MOST_KEPT_BYTES or len(self) > _MOST_KEPT):
            _, oldest = self.popitem(last=False)
            self.n_bytes -= oldest.plan.kept_bytes
            oldest.retire()
