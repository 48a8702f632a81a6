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
from spmd_grid.ops.calls.collective import CollectiveCall, CollectiveOperation
from spmd_grid.ops.calls.shape_rules import equal_shapes, same_dtype
from spmd_grid.ops.loops.quick_call import QuickCall
from spmd_grid.ops.loops.work import LoopWork
from spmd_grid.transport.communicator import Frames

__all__ = ["AgreeDtype", "AgreePlan", "compare_array"]


class _Compared:
    """The outcome of a comparison, in which nothing moves."""

    @staticmethod
    def run(x: np.ndarray, out: np.ndarray | None, frames: Frames) -> np.ndarray:
        """Return the caller's own array."""
        return x


class CompareArray(CollectiveOperation):
    """Check that all processes pass arrays of one shape and dtype."""

    name = "from_global"

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], sharding: Sharding) -> dict[str, Any]:
        return {"sharding": sharding}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> _Compared:
        equal_shapes(self.name, facts, call.label)
        same_dtype(self.name, facts, call.label)
        return _Compared()


class AgreeDtype(CollectiveOperation):
    """Check that all processes pass arrays of one dtype; each has checked its shape against the layout."""

    def __init__(self, name: str):
        self.name = name

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], layout: Layout) -> dict[str, Any]:
        return {"layout": layout}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> np.dtype:
        return same_dtype(self.name, facts, call.label)


_NOTHING = Facts(None, None)


class _Agreed:
    """The outcome of a comparison without arrays."""

    @staticmethod
    def run(x: np.ndarray | None, out: np.ndarray | None, frames: Frames) -> None:
        """Do what is left to do: nothing."""

    @staticmethod
    def loop_work() -> LoopWork:
        """The work of compiled code after the meeting."""
        return LoopWork()


class AgreePlan(CollectiveOperation):
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

    def quick_comparison(
        self, grid: ProcessGrid, axes: tuple[int, ...], plan: str, name: str
    ) -> Callable[..., object] | None:
        """Compare ``plan``, and make a compiled function that compares it again; None where there is none.

        Collective over ``axes``, within an operation.  The function is collective as well, and an operation by itself,
        which is ``name`` in errors.
        """
        call = self.find_call(grid, axes, (plan,))
        opening, gate = call.opening(_NOTHING), grid.process.gate
        agreed, frames = call.agree(opening, None)
        if not QuickCall.is_possible(call):
            return None
        quick = QuickCall(name, gate, call, partial(gate.run, name, call.agree, opening, None))
        quick.learn(opening, agreed, frames.headers, None, None, None)
        return quick.run

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], plan: str) -> dict[str, Any]:
        return {"plan": plan}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> _Agreed:
        return _Agreed()  # which is kept, so that the next equal headers are compared as they are


compare_array = CompareArray()
