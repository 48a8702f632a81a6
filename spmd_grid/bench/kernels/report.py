"""Table and verdict of the kernel benchmark; nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spmd_grid.bench.common.table import Column, Table, ratio, spread, time
from spmd_grid.bench.kernels.cases import KernelCase

__all__ = ["KernelRow", "summary", "table"]


@dataclass
class KernelRow:
    """Microseconds per call: ours (median, 10th and 90th percentile), and numpy's median."""

    case: KernelCase
    ours: float
    low: float
    high: float
    numpy: float

    @property
    def ratio(self) -> float:
        """Time of numpy divided by ours."""
        return self.numpy / self.ours

    @property
    def is_met(self) -> bool:
        """Whether the row reaches its goal."""
        return self.ratio >= self.case.goal

    def to_dict(self) -> dict[str, Any]:
        times = {"ours": self.ours, "low": self.low, "high": self.high, "numpy": self.numpy}
        return {"name": self.case.name, **times, "ratio": self.ratio, "goal": self.case.goal}


def table() -> Table[KernelRow]:
    columns: list[Column[KernelRow]] = [
        time("ours", lambda row: row.ours, 11),
        spread(lambda row: row.low, lambda row: row.high),
        time("numpy", lambda row: row.numpy, 11),
        ratio("ratio", lambda row: row.ratio),
        ratio("goal", lambda row: row.case.goal),
    ]
    missed: Column[KernelRow] = Column("", 0, lambda row: "" if row.is_met else "missed")
    return Table("kernel", 58, columns, [missed])


def summary(rows: Sequence[KernelRow]) -> list[str]:
    """The verdict, as one line."""
    return [f"{sum(row.is_met for row in rows)} of {len(rows)} rows reach their goal"]
