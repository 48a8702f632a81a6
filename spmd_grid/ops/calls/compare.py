"""Comparisons of arguments that all processes must agree on: the arrays passed to constructors, and plans."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from spmd_grid.errors import SpmdError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.collective import CollectiveCall, Operation
from spmd_grid.ops.calls.shape_rules import equal_shapes, same_dtype
from spmd_grid.transport.communicator import Frames

__all__ = ["AgreeDtype", "AgreePlan", "compare_array"]


class _Compared:
    """The outcome of a comparison, in which nothing moves."""

    @staticmethod
    def run(x: np.ndarray, out: np.ndarray | None, frames: Frames) -> np.ndarray:
        """Return the caller's own array."""
        return x


class CompareArray(Operation):
    """Check that all processes pass arrays of one shape and dtype."""

    name = "from_global"

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], sharding: Sharding) -> dict[str, Any]:
        return {"sharding": sharding}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> _Compared:
        equal_shapes(self.name, facts, call.label)
        same_dtype(self.name, facts, call.label)
        return _Compared()


class AgreeDtype(Operation):
    """Check that all processes pass arrays of one dtype; each has checked its shape against the layout."""

    def __init__(self, name: str):
        self.name = name

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], layout: Layout) -> dict[str, Any]:
        return {"layout": layout}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> np.dtype:
        return same_dtype(self.name, facts, call.label)


_NOTHING = Facts(None, None)


class AgreePlan(Operation):
    """Check that all processes make the same plan, given by a line of text, or raise the error of one that cannot."""

    def __init__(self, name: str):
        self.name = name

    def agree(self, grid: ProcessGrid, axes: tuple[int, ...], plan: str, error: SpmdError | None = None) -> None:
        """Compare ``plan``, or raise ``error`` on all members.  Collective over ``axes``.  Raises MismatchError."""
        call = self.find_call(grid, axes, (plan,))
        call.agree_by_itself(call.opening(_NOTHING) if error is None else call.refusal(error), None)

    def comparison(self, grid: ProcessGrid, axes: tuple[int, ...], plan: str) -> Callable[[], object]:
        """Make a function that compares ``plan`` inside operations.  Local; the function is as `agree`."""
        call = self.find_call(grid, axes, (plan,))
        return partial(call.agree, call.opening(_NOTHING), None)

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], plan: str) -> dict[str, Any]:
        return {"plan": plan}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> bool:
        return True  # which is kept, so that the next equal headers are compared as they are


compare_array = CompareArray()
