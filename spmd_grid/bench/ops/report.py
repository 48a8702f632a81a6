"""Tables and verdicts of the operations benchmark; nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spmd_grid.bench.common.rows import IN_PLACE, LIMIT, NUMBA_MPI, OURS, WAITING, Row
from spmd_grid.bench.common.table import Column, Table, best_by_hand, ours, ratio, remark, time_of
from spmd_grid.bench.common.verdicts import Goal, slower_lines
from spmd_grid.bench.ops.cases import LEAST_BYTES, OpsCase

__all__ = ["IN_LOOP", "NEW", "NUMPY", "PLAN", "PLAN_NUMPY", "STARTED", "RowFigures", "goals", "summary", "table"]

NEW, NUMPY = f"{OURS}, new result", f"{OURS}, numpy arrays"
IN_LOOP = f"{OURS} plan in a compiled loop"
PLAN, PLAN_NUMPY = f"{OURS} plan", f"{OURS} plan, numpy arrays"
STARTED = f"{OURS} plan, start and wait"
_STARTED_US, _IN_LOOP_US = 2.0, 0.5


class RowFigures(Row[OpsCase]):
    """The figures of one row; times are those of a call."""

    @property
    def best_over_plan(self) -> float | None:
        """Time of the best hand-written contender divided by that of our plan, if there is one."""
        return self.ratio(self.best(), PLAN) if PLAN in self.by_contender else None

    @property
    def plan_over_limit(self) -> float | None:
        """Time of our plan, or of our call, divided by that of copying the same bytes in place."""
        ours = PLAN if PLAN in self.by_contender else OURS
        return self.ratio(ours, IN_PLACE) if IN_PLACE in self.by_contender else None

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "best_peer_over_plan": self.best_over_plan}


def table(libraries: Sequence[str] = ()) -> Table[RowFigures]:
    """The table; no libraries are compared."""
    columns: list[Column[RowFigures]] = [
        *ours(),
        time_of("plan", PLAN),
        time_of("new result", NEW),
        time_of("from numpy", NUMPY),
        time_of("plan, numpy", PLAN_NUMPY),
        time_of("start, wait", STARTED),
        time_of("in-loop", IN_LOOP),
        time_of("copyto", LIMIT),
        time_of("in place", IN_PLACE),
        time_of("waiting", WAITING),
        time_of("best by hand", RowFigures.best),
        ratio("best/ours", lambda row: row.over_best),
        ratio("best/plan", lambda row: row.best_over_plan),
        ratio("plan/in place", lambda row: row.plan_over_limit),
    ]
    return Table("time per call", 32, columns, [best_by_hand(36), remark("remark")])


def goals() -> list[Goal[RowFigures]]:
    return [
        Goal("a plan not slower than the best by hand", lambda row: True, lambda row: row.best_over_plan, 1.0, True),
        Goal("start and wait of a plan, 8 B", _is_least, lambda row: row.us(STARTED), _STARTED_US, False, " us"),
        Goal(
            "all_reduce of 8 B in a compiled loop, near",
            lambda row: _is_least(row) and row.case.op == "all_reduce" and not row.far,
            lambda row: row.us(IN_LOOP),
            _IN_LOOP_US,
            False,
            " us",
        ),
    ]


def summary(rows: Sequence[RowFigures]) -> list[str]:
    """The verdicts, a line each."""
    besides = [_besides_numba_mpi(row) for row in rows if NUMBA_MPI in row.by_contender]
    return [*slower_lines(rows), *(goal.verdict(rows) for goal in goals()), *besides]


def _is_least(row: RowFigures) -> bool:
    return row.case.n_bytes == LEAST_BYTES


def _besides_numba_mpi(row: RowFigures) -> str:
    """The times of a row inside compiled loops."""
    ours, theirs = row.by_contender[IN_LOOP].us, row.by_contender[NUMBA_MPI].us
    return f"{row.case.name} in a compiled loop: our plan {ours:.3g} us, numba-mpi {theirs:.3g} us"
