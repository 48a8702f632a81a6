"""From the figures of the halo benchmark to text; nothing is measured here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict

from spmd_grid.bench.common.rows import OURS, Goal, Row, markdown_table, slower_lines
from spmd_grid.bench.halo.cases import HaloCase
from spmd_grid.bench.halo.peers import PERSISTENT

__all__ = [
    "IN_LOOP",
    "MESSAGE",
    "MESSAGE_IN_LOOP",
    "RowFigures",
    "goals",
    "summary",
    "table_head",
    "table_row",
    "to_markdown",
]

IN_LOOP = "spmd_grid in-loop"
MESSAGE, MESSAGE_IN_LOOP = "spmd_grid message path", "spmd_grid message path in-loop"


class RowFigures(Row):
    """What was measured in one row; times are those of an update."""

    @property
    def way(self) -> str:
        """How the bytes go to the neighbours, in the words of the plan."""
        return " and ".join(sorted(set(re.findall(r"^ *rank .*?\) (.*?): sends", self.plan, re.MULTILINE))))

    @property
    def over_persistent(self) -> float:
        return self.ratio(self.best(PERSISTENT), OURS)

    def to_dict(self) -> dict:
        return {
            "row": self.case.name,
            **asdict(self.case),
            "face_bytes": self.case.face_bytes,
            "plan": self.plan,
            "way": self.way,
            "rounds": self.rounds,
            "disturbed": self.disturbed,
            "rewriting_us": self.rewriting_us,
            "best_peer": self.best(),
            "best_peer_over_ours": self.over_best,
            "best_persistent": self.best(PERSISTENT),
            "persistent_over_ours": self.over_persistent,
            "contenders": {name: figure._asdict() for name, figure in self.by_contender.items()},
        }


# -- the table -------------------------------------------------------------------------------------------------

_COLUMNS = ("ours", "(10-90 %)", "in-loop", "message", "best by hand", "persistent", "best/ours", "pers./ours")
_WIDTHS = (9, 17, 9, 9, 14, 12, 11, 12)
_LABEL, _PEER = 58, 37


def table_head() -> str:
    cells = "".join(f"{column:>{width}s}" for column, width in zip(_COLUMNS, _WIDTHS))
    return f"{'us per update':{_LABEL}s}{cells}  {'which by hand':{_PEER}s}  our way"


def table_row(row: RowFigures) -> str:
    cells = "".join(f"{cell:>{width}s}" for cell, width in zip(_cells(row), _WIDTHS))
    return f"{row.case.name:{_LABEL}s}{cells}  {row.best():{_PEER}s}  {_remark(row)}".rstrip()


def to_markdown(rows: Sequence[RowFigures], caption: str, overlap: Sequence[str] = ()) -> str:
    """The table, the verdicts, and the lines of ``overlap`` as they are."""
    heads = ["row", *_COLUMNS, "which by hand", "our way"]
    cells = [[row.case.name, *_cells(row), row.best(), _remark(row)] for row in rows]
    lines = [caption, "", *markdown_table(heads, cells)]
    for block in (summary(rows), overlap):
        if block:
            lines += ["", "```", *block, "```"]
    return "\n".join(lines) + "\n"


def _cells(row: RowFigures) -> list[str]:
    ours = row.by_contender[OURS]
    return [
        _us(ours.us),
        f"({_us(ours.low)}-{_us(ours.high)})",
        _us(row.us(IN_LOOP)),
        _us(row.us(MESSAGE)),
        _us(row.us(row.best())),
        _us(row.us(row.best(PERSISTENT))),
        f"{row.over_best:.2f}",
        f"{row.over_persistent:.2f}",
    ]


def _remark(row: RowFigures) -> str:
    return row.way + (" (disturbed)" if row.disturbed else "")


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.{2 if abs(value) < 100 else 1}f}"


# -- the summary -----------------------------------------------------------------------------------------------


_KIB = 1024


def goals() -> list[Goal]:
    def small_rows(case: HaloCase) -> bool:
        return case.is_rows and case.ndim == 2 and case.n == 64

    def over_persistent(row: RowFigures) -> float:
        return row.over_persistent

    return [
        Goal(
            "2.5x persistent, row faces of 64^2 and 512^2",
            lambda case: case.is_rows and case.ndim == 2 and case.n in (64, 512),
            over_persistent,
            2.5,
            True,
        ),
        Goal(
            "4x persistent, row faces of 32 to 128 KiB",
            lambda case: case.is_rows and 32 * _KIB <= case.face_bytes <= 128 * _KIB,
            over_persistent,
            4.0,
            True,
        ),
        Goal("2x persistent, unit-stride faces", lambda case: not case.is_rows, over_persistent, 2.0, True),
        Goal("0.3 us in-loop, 64^2 rows", small_rows, lambda row: row.us(IN_LOOP), 0.3, False, " us"),
        Goal("1 us from Python, 64^2 rows", small_rows, lambda row: row.us(OURS), 1.0, False, " us"),
    ]


def summary(rows: Sequence[RowFigures]) -> list[str]:
    """The verdicts, a line each."""
    return [*slower_lines(rows), *(goal.verdict(rows) for goal in goals())]
