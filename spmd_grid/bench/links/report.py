"""Table and verdicts of the links benchmark; nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spmd_grid.bench.common.rows import CaseOnLinks
from spmd_grid.bench.common.table import Column, Table
from spmd_grid.bench.common.verdicts import Goal, disturbed_lines
from spmd_grid.bench.links.cases import LARGE, SMALL, LinksCase
from spmd_grid.bench.links.pace import STEADY
from spmd_grid.formatting import bytes_text, seconds_text

__all__ = ["goals", "AUTO", "LinksRow", "less_disturbed", "summary", "table"]

AUTO = "auto"
_CLOSE, _NEAR, _BEST = 1.25, 2.0, 1.1
_KEPT = "what", "n_bytes", "predicted", "measured", "change"  # fields that JSON holds unchanged


@dataclass
class LinksRow:
    """Seconds by the model and as measured, by strategy; of an operation, which has one way, under "auto".

    ``change``: by what factor the machine's pace had changed since the model was measured (`bench/links/pace.py`).
    """

    case: CaseOnLinks[LinksCase]
    what: str
    n_bytes: int
    predicted: dict[str, float]
    measured: dict[str, float]
    change: float = 1.0

    @classmethod
    def from_dict(cls, figures: Mapping[str, Any]) -> LinksRow:
        """The row whose `to_dict` gave ``figures``, read back from JSON."""
        case = LinksCase(figures["operation"], figures["size"], figures["number"])
        return cls(CaseOnLinks(figures["links"], case), *[figures[name] for name in _KEPT])

    def to_dict(self) -> dict[str, Any]:
        """All fields, and what follows from them, for JSON."""
        return {
            "row": self.case.name,
            "links": self.case.links,
            **self.case.case._asdict(),
            **{name: getattr(self, name) for name in _KEPT},
            "off": self.off,
            "over_best": self.over_best,
        }

    @property
    def off(self) -> float:
        """The factor by which the model is wrong, either way; 1 is right."""
        ratio = self.measured[AUTO] / self.predicted[AUTO]
        return max(ratio, 1 / ratio)

    @property
    def disturbed(self) -> bool:
        """Whether the machine's pace was another than that at which the model was measured."""
        return self.change > STEADY

    @property
    def over_best(self) -> float:
        """The time of the chosen way over that of the fastest measured."""
        return self.measured[AUTO] / min(self.measured.values())


def less_disturbed(one: LinksRow, other: LinksRow) -> LinksRow:
    """Of two measurements of a row that at a steady pace; of two alike, that in which all ways were faster.

    Other work on the machine disturbs many rounds in succession, and only adds time.
    """
    return min(one, other, key=lambda row: (row.disturbed, sum(row.measured.values()) / len(row.measured)))


def table() -> Table[LinksRow]:
    return Table(
        "links",
        36,
        [
            Column("bytes", 9, lambda row: bytes_text(row.n_bytes)),
            Column("model", 9, lambda row: seconds_text(row.predicted[AUTO])),
            Column("measured", 9, lambda row: seconds_text(row.measured[AUTO])),
            Column("off by", 7, lambda row: f"{row.off:.2f}x"),
            Column("over best", 10, lambda row: f"{row.over_best:.2f}" if len(row.measured) > 1 else "-"),
            Column("what", 10, lambda row: row.what + " (disturbed)" * row.disturbed),
        ],
    )


def goals() -> list[Goal[LinksRow]]:
    """The goals of the model: for many bytes, for few, and for the choice between ways."""

    def off(size: str, bound: float) -> Goal[LinksRow]:
        title = f"{size}: measured within {bound:g}x of the model"
        return Goal(title, lambda row: row.case.case.size == size, lambda row: row.off, bound, at_least=False)

    chosen = "the chosen way at most 10 % slower than the best measured"
    return [
        off(LARGE, _CLOSE),
        off(SMALL, _NEAR),
        Goal(chosen, lambda row: len(row.measured) > 1, lambda row: row.over_best, _BEST, at_least=False),
    ]


def summary(rows: Sequence[LinksRow]) -> list[str]:
    """The verdicts for each of the links, a line each, after a warning where rows were disturbed."""
    names = dict.fromkeys(row.case.links for row in rows)
    by_links = {name: [row for row in rows if row.case.links == name] for name in names}
    return disturbed_lines(rows) + [goal.verdict(found) for found in by_links.values() for goal in goals()]
