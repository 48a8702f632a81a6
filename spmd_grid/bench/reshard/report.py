"""Tables and verdicts of the resharding benchmark; nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from spmd_grid.bench.common.rows import LIMIT, OURS, RESHARD_LIBRARIES, Row
from spmd_grid.bench.common.table import Column, Table, best_by_hand, ours, ratio, remark, time_of
from spmd_grid.bench.common.verdicts import Goal, library_lines, slower_lines
from spmd_grid.bench.reshard.cases import ReshardCase
from spmd_grid.bench.reshard.peers import ALLTOALLW

__all__ = ["BOUND", "MESSAGE", "NEW", "NUMPY", "RowFigures", "goals", "summary", "table"]

NEW, NUMPY, MESSAGE = "spmd_grid, new result", "spmd_grid, numpy arrays", "spmd_grid message path"
BOUND = "spmd_grid bound plan"
_SMALL_BYTES = 1 << 19  # a global array of 256 x 256 doubles


class RowFigures(Row[ReshardCase]):
    """The figures of one row; times are those of a resharding."""

    @property
    def alltoallw_over_message(self) -> float:
        """Time of Alltoallw divided by that of ours without shared memory."""
        return self.ratio(ALLTOALLW, MESSAGE)

    @property
    def bound_over_best(self) -> float | None:
        """Time of the best hand-written contender divided by that of a bound plan's run; None if not measured."""
        return self.ratio(self.best(), BOUND) if BOUND in self.by_contender else None

    @property
    def over_limit(self) -> float:
        """Our time divided by that of a copy of the same bytes."""
        return self.ratio(OURS, LIMIT)

    def to_dict(self) -> dict[str, Any]:
        more = {"alltoallw_over_message": self.alltoallw_over_message, "ours_over_limit": self.over_limit}
        return {**super().to_dict(), **more}


def table(libraries: Sequence[str] = RESHARD_LIBRARIES) -> Table[RowFigures]:
    """The table, with a column for the fastest variant of each of ``libraries``."""
    columns: list[Column[RowFigures]] = [
        *ours(),
        time_of("bound", BOUND),
        time_of("new result", NEW),
        time_of("from numpy", NUMPY),
        time_of("message", MESSAGE),
        time_of("Alltoallw", ALLTOALLW),
        time_of("copyto", LIMIT),
        time_of("best by hand", RowFigures.best),
        *(time_of(name, partial(_best_of, name)) for name in libraries),
        ratio("best/ours", lambda row: row.over_best),
        ratio("Alltoallw/message", lambda row: row.alltoallw_over_message),
        ratio("ours/copyto", lambda row: row.over_limit),
    ]
    return Table("time per resharding", 34, columns, [best_by_hand(36), remark("plan", lambda row: row.plan)])


def _best_of(library: str, row: RowFigures) -> str | None:
    return row.best_of(library)


def goals() -> list[Goal[RowFigures]]:
    return [
        Goal(
            "bound plan at least 1.5x the best by hand, arrays up to 512 KiB",
            lambda row: row.case.n_bytes <= _SMALL_BYTES,
            lambda row: row.bound_over_best,
            1.5,
            True,
        ),
        Goal(
            "message path not slower than Alltoallw, rows to columns and 0 to 2",
            lambda row: row.case.is_first_to_last,
            lambda row: row.alltoallw_over_message,
            1.0,
            True,
        ),
    ]


def summary(rows: Sequence[RowFigures]) -> list[str]:
    """The verdicts, a line each."""
    return [*slower_lines(rows), *library_lines(rows), *(goal.verdict(rows) for goal in goals())]
