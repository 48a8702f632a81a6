"""Table and verdicts of the arrays benchmark; nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from spmd_grid.bench.arrays.cases import ArraysCase, Limit, all_cases
from spmd_grid.bench.common.rows import ARRAY_LIBRARIES, OURS, Row
from spmd_grid.bench.common.table import Column, Table, ours, ratio, remark, time_of
from spmd_grid.bench.common.verdicts import Goal, disturbed_lines, library_lines

__all__ = ["BY_HAND", "NUMPY", "RowFigures", "goals", "limit_text", "summary", "table"]

NUMPY, BY_HAND = "numpy", "by hand"


class RowFigures(Row[ArraysCase]):
    """The figures of one row; times are those of one evaluation."""

    def by_hand(self) -> list[str]:
        return [BY_HAND]

    @property
    def over_numpy(self) -> float:
        """Time of numpy on this rank's blocks, without communication, divided by ours."""
        return self.ratio(NUMPY, OURS)

    @property
    def added_us(self) -> float:
        """Microseconds that ours takes longer than numpy, or than the row's limit compares with."""
        limit = self.case.limit
        return self.by_contender[OURS].us - self.by_contender[NUMPY if limit is None else limit.other].us

    @property
    def is_met(self) -> bool | None:
        """Whether the row keeps its limit; None where it has none."""
        limit = self.case.limit
        if limit is None:
            return None
        if limit.most_us is not None:
            return self.added_us <= limit.most_us
        return self.ratio(limit.other, OURS) >= (limit.speed or 0.0)

    def over_library(self) -> float | None:
        """Time of the fastest other library divided by ours."""
        found = [self.ratio(name, OURS) for each in ARRAY_LIBRARIES if (name := self.best_of(each)) is not None]
        return min(found, default=None)

    def to_dict(self) -> dict[str, Any]:
        limit = self.case.limit
        more = {"numpy_over_ours": self.over_numpy, "limit": limit and str(limit), "is_met": self.is_met}
        return {**super().to_dict(), **more}


def limit_text(row: RowFigures) -> str:
    """The limit of a row and whether it is met; a dash where it has none."""
    return "-" if row.is_met is None else f"{row.case.limit}: {'met' if row.is_met else 'missed'}"


def table(libraries: Sequence[str] = ARRAY_LIBRARIES) -> Table[RowFigures]:
    """The table, with a column for each of ``libraries``."""
    columns: list[Column[RowFigures]] = [
        *ours(),
        time_of("numpy", NUMPY, 10),
        time_of("by hand", BY_HAND, 10),
        *(time_of(name, partial(_best_of, name), 10) for name in libraries),
        ratio("numpy/ours", lambda row: row.over_numpy),
        ratio("by hand/ours", lambda row: row.over_best),
    ]
    return Table("time per evaluation", 40, columns, [Column("limit", 36, limit_text), remark("remark")])


def _best_of(library: str, row: RowFigures) -> str | None:
    return row.best_of(library)


def goals() -> list[Goal[RowFigures]]:
    """A goal for every limit that rows have, and one for all rows."""
    limits = {(case.op, case.limit): case.limit for case in all_cases() if case.limit is not None}
    return [
        *(_goal_of(op, limit) for (op, _), limit in limits.items()),
        Goal("faster than every other library", lambda row: True, RowFigures.over_library, 1.0, True),
    ]


def _goal_of(op: str, limit: Limit) -> Goal[RowFigures]:
    def applies(row: RowFigures) -> bool:
        return row.case.op == op and row.case.limit == limit

    if limit.most_us is not None:
        return Goal(f"{op}: {limit}", applies, lambda row: row.added_us, limit.most_us, False, " us")
    return Goal(f"{op}: {limit}", applies, lambda row: row.ratio(limit.other, OURS), limit.speed or 0.0, True)


def summary(rows: Sequence[RowFigures]) -> list[str]:
    """The verdicts, a line each."""
    return [*disturbed_lines(rows), *library_lines(rows), *(goal.verdict(rows) for goal in goals())]
