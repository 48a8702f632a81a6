"""Plans of operations that need no agreement of a group: each run is an ordinary call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spmd_grid.exchange.requests import Request
from spmd_grid.ops.calls.plan_arrays import check_array, checked_kind
from spmd_grid.ops.loops.plan import StartablePlan

__all__ = ["CallPlan"]


class CallPlan(StartablePlan):
    """As `OperationPlan`, for an operation that needs no agreement of a group: each run is an ordinary call.

    ``call(x, out)`` and ``start(x, out)`` are the operation and its start.  ``takes_array``: whether it takes an array.
    """

    def __init__(
        self,
        name: str,
        text: str,
        shape: Sequence[int],
        dtype: np.typing.DTypeLike,
        call: Callable[[Any, Any], np.ndarray | None],
        start: Callable[[Any, Any], Request],
        takes_array: bool = True,
    ):
        self._name, self._text, self._takes_array = name, text, takes_array
        self.shape, self.dtype = checked_kind(name, shape, dtype)
        self._call, self._start = call, start

    def run(self, x: np.typing.ArrayLike | None = None, out: np.ndarray | None = None) -> np.ndarray | None:
        """Run the operation, as its own call does."""
        self._check(x)
        return self._call(x, out)

    def start(self, x: np.typing.ArrayLike | None = None, out: np.ndarray | None = None) -> Request:
        """Start the operation, as its own start does."""
        self._check_idle()
        self._check(x)
        self._request = self._start(x, out)
        return self._request

    def _check(self, x: Any) -> None:
        self._check_open()
        if self._takes_array:
            check_array(self._name, x, self.shape, self.dtype)

    @property
    def staging_bytes(self) -> int:
        """Zero: nothing is staged."""
        return 0

    def describe(self) -> str:
        """Describe the operation."""
        return f"{self._text} on {self.dtype} of shape {self.shape}"
