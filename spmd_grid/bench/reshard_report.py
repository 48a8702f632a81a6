"""From the figures of the resharding benchmark to text; nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from spmd_grid.bench.reshard_peers import ALLTOALLW
from spmd_grid.bench.rows import OURS, Goal, Row, markdown_table, slower_lines

__all__ = [
    "LIMIT",
    "MESSAGE",
    "NEW",
    "NUMPY",
    "RowFigures",
    "goals",
    "summary",
    "table_head",
    "table_row",
    "to_markdown",
]

NEW, NUMPY, MESSAGE = "spmd_grid, new result", "spmd_grid, numpy arrays", "spmd_grid message path"
LIMIT = "numpy.copyto"


class RowFigures(Row):
    """What was measured in one row; times are those of a resharding."""

    def by_hand(self) -> list[str]:
        return [name for name in super().by_hand() if name != LIMIT]

    @property
    def alltoallw_over_message(self) -> float:
        """How many times longer Alltoallw takes than ours without shared memory."""
        return self.ratio(ALLTOALLW, MESSAGE)

    @property
    def over_limit(self) -> float:
        """How many times longer ours takes than a copy of as many bytes."""
        return self.ratio(OURS, LIMIT)

    def to_dict(self) -> dict:
        return {
            "row": self.case.name,
            **asdict(self.case),
            "plan": self.plan,
            "rounds": self.rounds,
            "disturbed": self.disturbed,
            "rewriting_us": self.rewriting_us,
            "best_peer": self.best(),
            "best_peer_over_ours": self.over_best,
            "alltoallw_over_message": self.alltoallw_over_message,
            "ours_over_limit": self.over_limit,
            "contenders": {name: figure._asdict() for name, figure in self.by_contender.items()},
        }


# -- the table -------------------------------------------------------------------------------------------------

# Heading, width, and whose time.
_TIMES = (
    ("new result", 12, NEW),
    ("from numpy", 12, NUMPY),
    ("message", 10, MESSAGE),
    ("Alltoallw", 11, ALLTOALLW),
    ("copyto", 9, LIMIT),
)
_COLUMNS = ("ours", "(10-90 %)", *(head for head, _, _ in _TIMES), "best by hand")
_RATIOS = ("best/ours", "Alltoallw/message", "ours/copyto")
_WIDTHS = (9, 18, *(width for _, width, _ in _TIMES), 14, 11, 19, 13)
_LABEL, _PEER = 34, 30


def table_head() -> str:
    cells = "".join(f"{column:>{width}s}" for column, width in zip((*_COLUMNS, *_RATIOS), _WIDTHS, strict=True))
    return f"{'time per resharding':{_LABEL}s}{cells}  {'which by hand':{_PEER}s}  plan"


def table_row(row: RowFigures) -> str:
    cells = "".join(f"{cell:>{width}s}" for cell, width in zip(_cells(row), _WIDTHS, strict=True))
    return f"{row.case.name:{_LABEL}s}{cells}  {row.best():{_PEER}s}  {_remark(row)}".rstrip()


def to_markdown(rows: Sequence[RowFigures], caption: str) -> str:
    """The table and the verdicts."""
    heads = ["row", *_COLUMNS, *_RATIOS, "which by hand", "plan"]
    lines = [[row.case.name, *_cells(row), row.best(), _remark(row)] for row in rows]
    return "\n".join([caption, "", *markdown_table(heads, lines), "", "```", *summary(rows), "```"]) + "\n"


def _cells(row: RowFigures) -> list[str]:
    ours = row.by_contender[OURS]
    return [
        _time(ours.us),
        f"({_time(ours.low)}-{_time(ours.high)})",
        *(_time(row.us(name)) for _, _, name in _TIMES),
        _time(row.us(row.best())),
        *(f"{ratio:.2f}" for ratio in (row.over_best, row.alltoallw_over_message, row.over_limit)),
    ]


def _remark(row: RowFigures) -> str:
    return row.plan + (" (disturbed)" if row.disturbed else "")


def _time(us: float) -> str:
    """Three digits, in the unit that suits them."""
    us, unit = (us, "us") if abs(us) < 999.5 else (us / 1e3, "ms")
    digits = 2 if abs(us) < 9.995 else 1 if abs(us) < 99.95 else 0
    return f"{us:.{digits}f} {unit}"


# -- the summary -----------------------------------------------------------------------------------------------


def goals() -> list[Goal]:
    return [
        Goal(
            "message path not slower than Alltoallw, rows to columns and 0 to 2",
            lambda case: case.is_main,
            lambda row: row.alltoallw_over_message,
            1.0,
            True,
        ),
    ]


def summary(rows: Sequence[RowFigures]) -> list[str]:
    """The verdicts, a line each."""
    return [*slower_lines(rows), *(goal.verdict(rows) for goal in goals())]
