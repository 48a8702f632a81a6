"""The bases of plans: of those that compiled loops take as arguments, and of those that can be started as well."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self

import numpy as np

from spmd_grid.errors import RequestError
from spmd_grid.exchange.requests import Request, closed_plan
from spmd_grid.ops.loops.entry import CompiledPart, LoopEntry

__all__ = ["LoopPlan", "StartablePlan"]


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


class StartablePlan(LoopPlan):
    """A plan of the operation ``_name`` that is run at once, or started and waited for, until it is closed."""

    _name: str
    _request: Request | None = None
    _is_closed = False

    def wait(self) -> np.ndarray | None:
        """Wait for the started operation and return its result.  Collective, as the operation is."""
        if self._request is None:
            raise RequestError(f"{self._name}: wait() of a plan that has not been started; start() begins a run")
        request, self._request = self._request, None
        return request.wait()

    def close(self) -> None:
        """End the use of the plan by this process; may be called again."""
        self._is_closed = True
        self._leave_loops()

    def _check_idle(self) -> None:
        """Refuse to start a plan that is under way.  Local.  Raises RequestError."""
        if self._request is not None and not self._request.done:
            raise RequestError(f"{self._name}: start() of a plan that is under way; wait() for it first")

    def _check_open(self) -> None:
        """Refuse a plan that has been closed.  Local.  Raises RequestError."""
        if self._is_closed:
            raise closed_plan(self._name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
