"""Table and verdicts of the programs benchmark; nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from spmd_grid.bench.common.rows import OURS, PROGRAM_LIBRARIES, Row
from spmd_grid.bench.common.table import Column, Table, ours, remark, time_of
from spmd_grid.bench.common.verdicts import Goal, disturbed_lines, library_lines
from spmd_grid.bench.programs.cases import N_OPERATIONS, OPERATIONS, PLANNING, ProgramsCase

__all__ = ["BY_HAND", "RowFigures", "goals", "summary", "table"]

BY_HAND = "by hand"
_SPEED, _MOST_US, _MOST_PLANNING_MS = 0.95, 1.5, 200.0


class RowFigures(Row[ProgramsCase]):
    """The figures of one row; times are those of one run of a program, or of planning it."""

    def by_hand(self) -> list[str]:
        return [BY_HAND]

    def best(self, beginning: str = "") -> str:
        """The name of the version by hand; of planning, which has none, our own."""
        return BY_HAND if BY_HAND in self.by_contender else OURS

    @property
    def us_per_operation(self) -> float:
        """Microseconds that ours takes longer than by hand, for each operation."""
        return (self.by_contender[OURS].us - self.by_contender[BY_HAND].us) / N_OPERATIONS

    @property
    def planning_ms(self) -> float:
        """Milliseconds in which a program is traced and partitioned."""
        return self.by_contender[OURS].us / 1e3

    @property
    def is_met(self) -> bool:
        """Whether the row keeps its limit."""
        if self.case.program == PLANNING:
            return self.planning_ms <= _MOST_PLANNING_MS
        if self.case.program == OPERATIONS:
            return self.us_per_operation <= _MOST_US
        return self.over_best >= _SPEED

    def over_library(self) -> float | None:
        """Time of the fastest other library divided by ours."""
        found = [self.ratio(name, OURS) for each in PROGRAM_LIBRARIES if (name := self.best_of(each)) is not None]
        return min(found, default=None)

    def to_dict(self) -> dict[str, Any]:
        more: dict[str, Any] = {"is_met": self.is_met}
        if self.case.program == OPERATIONS:
            more["us_per_operation"] = self.us_per_operation
        return {**super().to_dict(), **more}


def _limit_text(row: RowFigures) -> str:
    verdict = "met" if row.is_met else "missed"
    if row.case.program == PLANNING:
        return f"at most {_MOST_PLANNING_MS:.0f} ms: {verdict}"
    if row.case.program == OPERATIONS:
        return f"{row.us_per_operation:+.2f} us per operation, at most {_MOST_US}: {verdict}"
    return f"at least {_SPEED:.2f}x by hand: {verdict}"


def _over_hand(row: RowFigures) -> str:
    return f"{row.over_best:.2f}x" if BY_HAND in row.by_contender else "-"


def table(libraries: Sequence[str] = PROGRAM_LIBRARIES) -> Table[RowFigures]:
    """The table, with a column for each of ``libraries``."""
    columns: list[Column[RowFigures]] = [
        *ours(),
        time_of("by hand", BY_HAND, 10),
        *(time_of(name, partial(_best_of, name), 10) for name in libraries),
        Column("by hand/ours", 14, _over_hand),
    ]
    return Table("time per run", 42, columns, [Column("limit", 44, _limit_text), remark("remark")])


def _best_of(library: str, row: RowFigures) -> str | None:
    return row.best_of(library)


def goals() -> list[Goal[RowFigures]]:
    """The limits of all rows."""
    return [
        Goal("as fast as by hand", lambda row: row.case.is_program, lambda row: row.over_best, _SPEED, True),
        Goal(
            "longer than by hand, per operation",
            lambda row: row.case.program == OPERATIONS,
            lambda row: row.us_per_operation,
            _MOST_US,
            False,
            " us",
        ),
        Goal(
            "planning",
            lambda row: row.case.program == PLANNING,
            lambda row: row.planning_ms,
            _MOST_PLANNING_MS,
            False,
            " ms",
        ),
        Goal("faster than every other library", lambda row: row.case.is_program, RowFigures.over_library, 1.0, True),
    ]


def summary(rows: Sequence[RowFigures]) -> list[str]:
    """The verdicts, a line each."""
    return [*disturbed_lines(rows), *library_lines(rows), *(goal.verdict(rows) for goal in goals())]
