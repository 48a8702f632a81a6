"""From the figures of the operations benchmark to text; nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence

from spmd_grid.bench.common.rows import LIMIT, OURS, Goal, Row, slower_lines
from spmd_grid.bench.common.table import Table, ours, ratio, remark, time_of, which

__all__ = ["NEW", "NUMPY", "PLAN", "PLAN_NUMPY", "RowFigures", "goals", "summary", "table"]

NEW, NUMPY = f"{OURS}, new result", f"{OURS}, numpy arrays"
PLAN, PLAN_NUMPY = f"{OURS} plan", f"{OURS} plan, numpy arrays"


class RowFigures(Row):
    """What was measured in one row; times are those of a call."""

    @property
    def best_over_plan(self) -> float | None:
        """How many times longer the best hand-written one takes than a plan of ours, if there is one."""
        return self.ratio(self.best(), PLAN) if PLAN in self.by_contender else None

    def to_dict(self) -> dict:
        return {**super().to_dict(), "best_peer_over_plan": self.best_over_plan}


def table(libraries: Sequence[str] = ()) -> Table:
    """No other library takes part."""
    columns = [
        *ours(),
        time_of("plan", PLAN),
        time_of("new result", NEW),
        time_of("from numpy", NUMPY),
        time_of("plan, numpy", PLAN_NUMPY),
        time_of("copyto", LIMIT),
        time_of("best by hand", Row.best),
        ratio("best/ours", lambda row: row.over_best),
        ratio("best/plan", lambda row: row.best_over_plan),
    ]
    return Table("time per call", 32, columns, [which(36), remark("remark")])


def goals() -> list[Goal]:
    return [
        Goal("a plan not slower than the best by hand", lambda case: True, lambda row: row.best_over_plan, 1.0, True),
    ]


def summary(rows: Sequence[RowFigures]) -> list[str]:
    """The verdicts, a line each."""
    return [*slower_lines(rows), *(goal.verdict(rows) for goal in goals())]
