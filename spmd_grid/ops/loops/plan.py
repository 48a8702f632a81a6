"""The base of plans that compiled loops take as arguments."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from spmd_grid.ops.loops.entry import CompiledPart, LoopEntry

__all__ = ["LoopPlan"]


class LoopPlan:
    """A plan that compiled loops take: numba finds its type and the address of its state here."""

    _loop: LoopEntry | None = None

    def run(self, x: Any = None, out: np.ndarray | None = None) -> Any:
        """Run the plan."""
        raise NotImplementedError

    def compiled_part(self) -> CompiledPart | None:
        """Return the part that compiled code may run by itself; None where Python makes all runs.  Local."""
        return None

    @property
    def _numba_type_(self) -> Any:
        return import_module("spmd_grid.ops.loops.jit").plan_type

    @property
    def _loop_state(self) -> int:
        """The address of what compiled code needs; asked for whenever a compiled function is given the plan."""
        if self._loop is None:
            self._loop = LoopEntry(self)
        self._loop.refresh()
        return self._loop.address

    def _leave_loops(self) -> None:
        """Makes Python run it, which refuses a plan that has been closed."""
        if self._loop is not None:
            self._loop.retire()
