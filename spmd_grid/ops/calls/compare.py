"""What all processes must agree on although nothing moves: the arrays that constructors get, and plans."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from spmd_grid.errors import SpmdError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.ops.calls.collective import CollectiveCall, Operation
from spmd_grid.ops.calls.shape_rules import equal_shapes, same_dtype

__all__ = ["AgreeDtype", "AgreePlan", "compare_array"]


class _Compared:
    """The outcome of a comparison that moved nothing: the caller's own array."""

    @staticmethod
    def run(x, out, frames):
        return x


class CompareArray(Operation):
    """All processes must pass arrays of one shape and dtype."""

    name = "from_global"

    def prepare(self, grid, axes, sharding) -> dict:
        return {"sharding": sharding}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> _Compared:
        equal_shapes(self.name, facts, call.label)
        same_dtype(self.name, facts, call.label)
        return _Compared()


class AgreeDtype(Operation):
    """Every process has an array that fits its place in a layout; all must be of one dtype."""

    def __init__(self, name: str):
        self.name = name

    def prepare(self, grid, axes, layout) -> dict:
        return {"layout": layout}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> np.dtype:
        return same_dtype(self.name, facts, call.label)


_NOTHING = Facts(None, None)


class AgreePlan(Operation):
    """All processes must make the same plan, which is told by a line of text; or learn why one cannot."""

    def __init__(self, name: str):
        self.name = name

    def agree(self, grid, axes, plan: str, error: SpmdError | None = None) -> None:
        """Compares ``plan``, or raises ``error`` on all.  Collective over ``axes``.  Raises MismatchError."""
        call = self.find_call(grid, axes, (plan,))
        call.agree_by_itself(call.opening(_NOTHING) if error is None else call.refusal(error), None)

    def comparison(self, grid, axes, plan: str) -> Callable[[], object]:
        """What compares ``plan`` again and again, inside operations.  Local, and then as `agree`."""
        call = self.find_call(grid, axes, (plan,))
        return partial(call.agree, call.opening(_NOTHING), None)

    def prepare(self, grid, axes, plan) -> dict:
        return {"plan": plan}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> None:
        return None


compare_array = CompareArray()
