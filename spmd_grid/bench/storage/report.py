"""Table and verdicts of the storage benchmark; nothing is measured here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from spmd_grid.bench.common.rows import OURS, STORAGE_LIBRARIES, Row
from spmd_grid.bench.common.table import Column, Table, number, ours, ratio, remark, time_of
from spmd_grid.bench.common.verdicts import Goal, disturbed_lines
from spmd_grid.bench.storage.cases import StorageCase

__all__ = ["LARGE", "NO_CHECKSUMS", "NPY", "RAW", "RowFigures", "goals", "summary", "table"]

RAW = "one process"
NPY = f"{OURS} npy"
NO_CHECKSUMS = f"{OURS} without checksums"
LARGE = 1 << 28  # bytes from which on the goal of speed counts, and few rounds without other libraries are measured


class RowFigures(Row[StorageCase]):
    """The figures of one row; times are those of saving or loading once."""

    def by_hand(self) -> list[str]:
        return [RAW]

    @property
    def checksums(self) -> float | None:
        """Our time with checksums, divided by that without."""
        return self.ratio(OURS, NO_CHECKSUMS) if NO_CHECKSUMS in self.by_contender else None

    @property
    def mib_per_second(self) -> int:
        """Bytes per second that ours saves or loads."""
        return round(self.case.n_bytes / (1 << 20) / (1e-6 * max(self.by_contender[OURS].us, 1.0)))

    def over_library(self) -> float | None:
        """Time of the fastest other library divided by ours."""
        return min([self.ratio(each, OURS) for each in STORAGE_LIBRARIES if each in self.by_contender], default=None)

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "checksums": self.checksums, "mib_per_second": self.mib_per_second}


def table(libraries: Sequence[str] = STORAGE_LIBRARIES) -> Table[RowFigures]:
    """The table, with a column for each of ``libraries``."""
    columns: list[Column[RowFigures]] = [
        *ours(),
        number("MiB/s", lambda row: row.mib_per_second),
        time_of("npy", NPY),
        time_of(RAW, RAW),
        *[_time_of(name) for name in libraries],
        ratio("one process/ours", lambda row: row.over_best),
        ratio("checksums", lambda row: row.checksums),
    ]
    return Table("time", 24, columns, [remark("remark")])


def _time_of(name: str) -> Column[RowFigures]:
    return time_of(name, name, 10)


def goals() -> list[Goal[RowFigures]]:
    def is_large(row: RowFigures) -> bool:
        return row.case.n_bytes >= LARGE

    return [
        Goal("0.9 of the speed of one process", is_large, lambda row: row.over_best, 0.9, True),
        Goal("checksums cost under 10 %", is_large, lambda row: row.checksums, 1.1, False),
        Goal("faster than every other library", lambda row: True, RowFigures.over_library, 1.0, True),
    ]


def summary(rows: Sequence[RowFigures]) -> list[str]:
    """The verdicts, a line each."""
    reasons = Counter((name, reason) for row in rows for name, reason in row.skipped.items())
    skipped = [f"{name} skipped in {n} of {len(rows)} rows: {reason}" for (name, reason), n in reasons.items()]
    return [*disturbed_lines(rows), *skipped, *(goal.verdict(rows) for goal in goals())]
