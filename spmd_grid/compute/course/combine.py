"""The last step of every reduction: the processes' results are combined, with equal bits on every process."""

from __future__ import annotations

from functools import cache
from threading import get_ident
from typing import Any

import numpy as np

from spmd_grid.exchange.paths import chosen_path
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.all_reduce import AllReduce
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.reduction.reducing import Reducing

__all__ = ["Combination"]


class Combine(Reducing):
    """`all_reduce` of the processes' results, under the name of the reduction that it ends.

    A mismatch error then names the reductions, dtypes and layouts that processes called it with.
    """

    resolve = AllReduce.resolve

    def __init__(self, name: str):
        self.name = name

    def prepare(
        self,
        grid: ProcessGrid,
        axes: tuple[int, ...],
        reduction: str,
        dtypes: tuple[np.dtype, ...],
        layout: Layout,
        reproducible: bool,
    ) -> dict[str, Any]:
        compared = {"dtypes": dtypes, "reproducible": reproducible, "layout": layout}
        return self.prepare_reduction(reduction, None) | compared


_operation = cache(Combine)


class Combination:
    """The combination, by ``kind``, of what processes find by the reduction ``name``, over ``axes`` of a grid.

    The element types of the arrays and the ``layout`` of the first are compared.  The prepared call of the last time is
    kept, for as long as the next one has the same path.
    """

    __slots__ = ("_arguments", "_axes", "_call", "_grid", "_operation", "_path")

    def __init__(
        self,
        name: str,
        grid: ProcessGrid,
        axes: tuple[int, ...],
        kind: str,
        dtypes: tuple[np.dtype, ...],
        layout: Layout,
        reproducible: bool = False,
    ):
        self._operation = _operation(name)
        self._grid = grid
        self._axes = axes
        self._arguments = kind, dtypes, layout, reproducible
        self._call: CollectiveCall | None = None
        self._path = ""

    def of(self, found: Any) -> np.ndarray:
        """The combined results that processes ``found``.  Collective over the axes; the gate has been passed."""
        x, grid = np.asarray(found), self._grid
        process, path = grid.process, chosen_path()
        if process.recorder is not None or get_ident() != process.gate.owner:
            return self._operation.run_in_gate(x, grid, self._axes, self._arguments)
        call = self._call
        if call is None or path != self._path:
            call = self._call = self._operation.find_call(grid, self._axes, self._arguments)
            self._path = path
        opening, x = call.opening_for(x, None)  # type: ignore[assignment]  # an array was given
        agreed, frames = call.agree(opening, x)
        return agreed.run(x, None, frames)

    def refuse(self, error: Exception) -> None:
        """Raise ``error``, which this process has had instead of finding anything, on all.  Collective as `of`."""
        grid = self._grid
        name = grid.process.gate.thread_name()
        call = self._operation.find_call(grid, self._axes, self._arguments, thread_name=name)
        call.agree(call.refusal(error, f" (on {call.label(call.comm.rank)})"), None)
