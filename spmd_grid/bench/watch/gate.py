"""The cost of the gate: small operations with it and without it, on a grid of one process.

Every operation passes the gate of its process (`transport/gate.py`).  On one process an operation waits for no other,
so the gate's share of its time is as large as it can be.  The operations without the gate are those of subclasses,
whose methods are the statements of the base class less those of the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.array import zeros
from spmd_grid.bench.common.mpi import mpi
from spmd_grid.bench.common.table import Column, Table, time
from spmd_grid.bench.common.timing import Batch, Ranks, measure
from spmd_grid.exchange.paths import chosen_path
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.exchange import HaloExchange
from spmd_grid.halo.plan.field_checks import Field
from spmd_grid.halo.updates import Updates
from spmd_grid.ops.all_reduce import AllReduce, all_reduce
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.typing import GridAxes

__all__ = ["GateRow", "gate_cases", "gate_rows", "gate_table"]

WITH, WITHOUT = "with the gate", "without"
_SIDE = 64  # cells along each dimension of the field of the halo exchange
_ROW_SECONDS = 2.0

Pair = tuple[Callable[[], object], Callable[[], object]]  # an operation with the gate, and without


class _Named(NamedTuple):
    name: str


class GateRow(NamedTuple):
    """Microseconds of an operation with the gate and without it."""

    case: _Named
    with_us: float
    without_us: float

    @property
    def ns(self) -> float:
        """Nanoseconds that the gate adds."""
        return 1e3 * (self.with_us - self.without_us)

    @property
    def percent(self) -> float:
        """The same as a part of the operation without it."""
        return 100 * (self.with_us / self.without_us - 1)

    def to_dict(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return {"row": self.case.name, "with_us": self.with_us, "without_us": self.without_us, "gate_ns": self.ns}


def gate_table() -> Table[GateRow]:
    columns: list[Column[GateRow]] = [
        time(WITH, lambda row: row.with_us, 15),
        time(WITHOUT, lambda row: row.without_us, 10),
        Column("the gate", 10, lambda row: f"{row.ns:.0f} ns"),
        Column("share", 8, lambda row: f"{row.percent:.1f} %"),
    ]
    return Table("operations of one process", 44, columns)


def gate_rows(comm: Ranks, rounds: int) -> Iterator[GateRow]:
    """Measure all rows, on every process at the same time; the figures are those of the slowest.  Collective."""
    grid = init_grid((1,), comm=mpi().COMM_SELF)
    with ExitStack() as stack:
        for name, (with_gate, without) in gate_cases(grid, stack).items():
            batches = {WITH: _batch(with_gate), WITHOUT: _batch(without)}
            times = measure(comm, batches, rounds, at_most_seconds=_ROW_SECONDS)
            yield GateRow(_Named(name), 1e6 * times.median(WITH), 1e6 * times.median(WITHOUT))


def _batch(call: Callable[[], object]) -> Batch:
    def batch(n: int) -> None:
        for _ in range(n):
            call()

    return batch


def gate_cases(grid: ProcessGrid, stack: ExitStack) -> dict[str, Pair]:
    """The operations by name.  ``stack`` closes what they need.  Collective over ``grid``, as they are."""
    x, out = np.ones(1), np.empty(1)
    with_gate, without = (_reduce_call(operation, x, grid, out) for operation in (_GatedReduce(), _UngatedReduce()))
    made_for = all_reduce, grid, (1,), "float64", (0,), ("sum", None), chosen_path(), None
    plans = [stack.enter_context(kind(*made_for)) for kind in (_GatedPlan, _UngatedPlan)]
    u = zeros((_SIDE, _SIDE), Sharding(grid, [[0]], halo_sizes=[1, 1]), grid)
    halos = [
        stack.enter_context(kind(grid, u.sharding, u.shape, "float64", periodic=True, path="read"))
        for kind in (_GatedExchange, _UngatedExchange)
    ]
    return {
        "all_reduce, 8 B": (with_gate, without),
        "plan.run of all_reduce, 8 B": (lambda: plans[0].run(x, out), lambda: plans[1].run(x, out)),
        f"HaloExchange.update, {_SIDE}^2 block": (lambda: halos[0].update(u), lambda: halos[1].update(u)),
    }


def _reduce_call(operation: AllReduce, x: np.ndarray, grid: ProcessGrid, out: np.ndarray) -> Callable[[], object]:
    return lambda: operation(x, grid, (0,), "sum", out=out)


# -- with the gate, by Python --------------------------------------------------------------------------------------


class _GatedReduce(AllReduce):
    def _operate(
        self, x: Any, grid: ProcessGrid, grid_axes: GridAxes | None, args: tuple, out: np.ndarray | None = None
    ) -> Any:
        return self._operate_by_python(grid, grid_axes, args, x, out)


class _GatedPlan(OperationPlan):
    def run(self, x: np.typing.ArrayLike | None = None, out: np.ndarray | None = None) -> np.ndarray | None:
        return super().run(x, out)


class _GatedExchange(HaloExchange):
    def _make(self, *args: Any) -> None:
        super()._make(*args)
        self.update = Updates(self._plan).update  # type: ignore[method-assign]


# -- without the gate ------------------------------------------------------------------------------------------


class _UngatedReduce(AllReduce):
    def _operate(
        self, x: Any, grid: ProcessGrid, grid_axes: GridAxes | None, args: tuple, out: np.ndarray | None = None
    ) -> Any:
        if grid.process.recorder is None:
            call = self.find_call(grid, grid_axes, args)
            opening, x = call.opening_for(x, out)
            agreed, frames = call.agree(opening, x)
            return agreed.run(x, out, frames)
        return self.run_in_gate(x, grid, grid_axes, args, out)


class _UngatedPlan(OperationPlan):
    def run(self, x: np.typing.ArrayLike | None = None, out: np.ndarray | None = None) -> np.ndarray | None:
        if self._process.recorder is None:
            opening, x = self._opening_for(self._call, x, out)
            agreed, frames = self._call.agree(opening, x)
            return agreed.run(x, out, frames)
        return self._run(self._call_of_thread("plan.run"), x, out)


class _UngatedExchange(HaloExchange):
    def update(self, *fields: Field, only_dirty: bool = False) -> None:
        self._plan.update(fields, only_dirty)
        if self._plan.follow_ups:
            self._plan.follow_up(fields, only_dirty)
