"""The bound plans that a group of processes keeps for the next run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.reshard.executor.bound_plan import BoundPlan

__all__ = ["KeptPlans"]

# Bound plans of one group of processes are kept while their buffers together are no larger than this.
_MOST_KEPT_BYTES = 1 << 30
_MOST_KEPT = 64

# After this many runs by Python, plans that compiled code may run are kept for good, unless there are many.
_RUNS = 8
_MOST_PINNED = 64
_MOST_SEEN = 512  # requests that have run once


class KeptPlans(OrderedDict[Hashable, BoundPlan]):
    """Bound plans by plan and path, the last used at the end.  Local.

    All members of the group keep the same plans: only the order of runs and the plans decide which are given up.
    Compiled runs do not count, so plans that get them are *pinned* before, while Python makes all runs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.n_bytes = 0
        self._pinned: dict[Hashable, BoundPlan] = {}
        self._seen: dict[str, None] = {}

    def is_first(self, request: str) -> bool:
        """Whether the group has not yet run ``request``, as far as it remembers."""
        return request not in self._seen

    def note(self, request: str) -> None:
        """Remember that the group has run ``request``."""
        keep(self._seen, request, None, _MOST_SEEN)

    def find(self, key: Hashable) -> BoundPlan | None:
        """Find the plan for a run by Python, in which all members look for it."""
        pinned = self._pinned.get(key)
        if pinned is not None:
            return pinned
        bound = self.get(key)
        if bound is not None:
            self.move_to_end(key)
            bound.runs += 1
            if bound.runs == _RUNS and len(self._pinned) < _MOST_PINNED and bound.loop_work() is not None:
                self._pinned[key] = self.pop(key)
                self.n_bytes -= bound.plan.kept_bytes
        return bound

    def is_pinned(self, key: Hashable) -> bool:
        """Whether compiled code may run the plan."""
        return key in self._pinned

    def stays_with_python(self, key: Hashable) -> bool:
        """Whether the plan has run by Python for so long that compiled code will not run it."""
        bound = self.get(key)
        return bound is not None and bound.runs >= _RUNS

    def add(self, key: Hashable, bound: BoundPlan) -> None:
        """Keep ``bound``, and give up the oldest ones that no longer fit."""
        self[key] = bound
        self.n_bytes += bound.plan.kept_bytes
        while len(self) > 1 and (self.n_bytes > _MOST_KEPT_BYTES or len(self) > _MOST_KEPT):
            _, oldest = self.popitem(last=False)
            self.n_bytes -= oldest.plan.kept_bytes
            oldest.retire()
