"""Table and verdicts of the links benchmark; nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from spmd_grid.bench.common.rows import CaseOnLinks
from spmd_grid.bench.common.table import Column, Table
from spmd_grid.bench.common.verdicts import Goal
from spmd_grid.bench.links.cases import LARGE, SMALL, LinksCase
from spmd_grid.formatting import bytes_text, seconds_text

__all__ = ["AUTO", "LinksRow", "goals", "summary", "table"]

AUTO = "auto"
_CLOSE, _NEAR, _BEST = 1.25, 2.0, 1.1
_KEPT = "what", "n_bytes", "predicted", "measured", "turns"  # fields that JSON holds unchanged


@dataclass
class LinksRow:
    """Seconds by the model and as measured, by strategy; of an operation, which has one way, under "auto".

    Both are of undisturbed moments (`bench/links/undisturbed.py`); ``turns``: by turn, the time of the way of "auto".
    """

    case: CaseOnLinks[LinksCase]
    what: str
    n_bytes: int
    predicted: dict[str, float]
    measured: dict[str, float]
    turns: Sequence[float]

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
    def over_best(self) -> float:
        """The time of the chosen way over that of the fastest measured."""
        return self.measured[AUTO] / min(self.measured.values())

    @property
    def over_fastest(self) -> float:
        """The time of the turn in the middle over that of the fastest: how much else ran on the machine."""
        return median(self.turns) / min(self.turns)


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
            Column("median turn", 12, lambda row: f"{row.over_fastest:.2f}x"),
            Column("what", 10, lambda row: row.what),
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
    """The verdicts for each of the links, a line each."""
    names = dict.fromkeys(row.case.links for row in rows)
    by_links = {name: [row for row in rows if row.case.links == name] for name in names}
    return [goal.verdict(found) for found in by_links.values() for goal in goals()]
