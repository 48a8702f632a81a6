"""Tables and verdicts of the halo benchmark; nothing is measured here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from spmd_grid.bench.common.rows import IN_PLACE, OURS, Row
from spmd_grid.bench.common.table import Column, Table, best_by_hand, ours, ratio, remark, time_of
from spmd_grid.bench.common.verdicts import Goal, slower_lines
from spmd_grid.bench.halo.cases import HaloCase
from spmd_grid.bench.halo.peers import PERSISTENT

__all__ = ["IN_LOOP", "MESSAGE", "MESSAGE_IN_LOOP", "RowFigures", "goals", "summary", "table"]

IN_LOOP = "spmd_grid in-loop"
MESSAGE, MESSAGE_IN_LOOP = "spmd_grid message path", "spmd_grid message path in-loop"
_KIB = 1024


class RowFigures(Row[HaloCase]):
    """The figures of one row; times are those of an update."""

    @property
    def way(self) -> str:
        """The path of the bytes to the neighbours, as the plan describes it."""
        return " and ".join(sorted(set(re.findall(r"^ *rank .*?\) (.*?): sends", self.plan, re.MULTILINE))))

    @property
    def over_persistent(self) -> float:
        """Time of the best contender with persistent requests divided by ours."""
        return self.ratio(self.best(PERSISTENT), OURS)

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "face_bytes": self.case.face_bytes,
            "way": self.way,
            "best_persistent": self.best(PERSISTENT),
            "persistent_over_ours": self.over_persistent,
        }


def table() -> Table[RowFigures]:
    columns: list[Column[RowFigures]] = [
        *ours(),
        time_of("in-loop", IN_LOOP),
        time_of("message", MESSAGE),
        time_of("in place", IN_PLACE),
        time_of("best by hand", RowFigures.best),
        time_of("persistent", lambda row: row.best(PERSISTENT)),
        ratio("best/ours", lambda row: row.over_best),
        ratio("pers./ours", lambda row: row.over_persistent),
    ]
    return Table("time per update", 58, columns, [best_by_hand(37), remark("our way", lambda row: row.way)])


def goals() -> list[Goal[RowFigures]]:
    def is_small(row: RowFigures) -> bool:
        return row.case.is_rows and row.case.ndim == 2 and row.case.n == 64

    def over_persistent(row: RowFigures) -> float:
        return row.over_persistent

    def is_open(row: RowFigures) -> bool:
        return not row.case.periodic and row.case.face_bytes <= 64 * _KIB

    return [
        Goal(
            "2.5x persistent, row faces of 64^2 and 512^2",
            lambda row: row.case.is_rows and row.case.ndim == 2 and row.case.n in (64, 512),
            over_persistent,
            2.5,
            True,
        ),
        Goal(
            "4x persistent, row faces of 32 to 128 KiB",
            lambda row: row.case.is_rows and 32 * _KIB <= row.case.face_bytes <= 128 * _KIB,
            over_persistent,
            4.0,
            True,
        ),
        Goal("2x persistent, unit-stride faces", lambda row: not row.case.is_rows, over_persistent, 2.0, True),
        Goal("2.5x persistent, one neighbour, faces up to 64 KiB", is_open, over_persistent, 2.5, True),
        Goal(
            "0.25 us in-loop, one neighbour, near, faces up to 1 KiB",
            lambda row: is_open(row) and is_small(row) and not row.far,
            lambda row: row.us(IN_LOOP),
            0.25,
            False,
            " us",
        ),
        Goal("0.3 us in-loop, 64^2 rows", is_small, lambda row: row.us(IN_LOOP), 0.3, False, " us"),
        Goal("1 us from Python, 64^2 rows", is_small, lambda row: row.us(OURS), 1.0, False, " us"),
    ]


def summary(rows: Sequence[RowFigures]) -> list[str]:
    """The verdicts, a line each."""
    return [*slower_lines(rows), *(goal.verdict(rows) for goal in goals())]
