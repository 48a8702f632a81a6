"""Table and verdicts of the start benchmark; nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spmd_grid.bench.common.table import Column, Table, spread, time
from spmd_grid.bench.common.verdicts import Goal
from spmd_grid.bench.start.cases import StartCase

__all__ = ["StartRow", "goals", "summary", "table"]


@dataclass
class StartRow:
    """Milliseconds: the median, and the 10th and 90th percentiles."""

    case: StartCase
    ms: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        return {"row": self.case.name, "ms": self.ms, "low": self.low, "high": self.high}


def table() -> Table[StartRow]:
    columns: list[Column[StartRow]] = [
        time("time", lambda row: 1e3 * row.ms),
        spread(lambda row: 1e3 * row.low, lambda row: 1e3 * row.high),
        time("goal", lambda row: None if row.case.most_ms is None else 1e3 * row.case.most_ms),
    ]
    return Table("in a fresh process", 36, columns)


def goals() -> list[Goal[StartRow]]:
    def goal(title: str, beginning: str) -> Goal[StartRow]:
        def share(row: StartRow) -> float | None:
            return None if row.case.most_ms is None else row.ms / row.case.most_ms

        return Goal(title, lambda row: row.case.name.startswith(beginning), share, 1.0, False, " of it")

    return [
        goal("150 ms to import, beyond numpy", "import"),
        goal("300 ms for a first operation, beyond numba", "first"),
    ]


def summary(rows: Sequence[StartRow]) -> list[str]:
    """The verdicts, a line each."""
    return [goal.verdict(rows) for goal in goals()]
