"""Table and verdicts of the shapes benchmark; nothing is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spmd_grid.bench.common.table import Column, Table, ratio, time
from spmd_grid.bench.common.verdicts import Goal, disturbed_lines
from spmd_grid.bench.shapes.cases import ShapesCase

__all__ = ["ShapesRow", "goals", "summary", "table"]

_MOST_FIRST_MS, _MOST_RATIO = 30.0, 2.0


@dataclass
class ShapesRow:
    """Microseconds: of the first run, later ones, a copy of the block, and numpy on a block (0: it was not asked).

    ``fixed_ms``: what an operation may take besides.
    """

    case: ShapesCase
    first: float
    later: float
    copy: float
    numpy: float
    fixed_ms: float
    disturbed: bool = False

    @property
    def ratio(self) -> float:
        """Time of later runs, less what may be fixed, over that of numpy or the copy."""
        return max(0.0, self.later - 1e3 * self.fixed_ms) / max(self.copy, self.numpy, 1e-3)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "row": self.case.name, "ratio": self.ratio}


def table() -> Table[ShapesRow]:
    columns: list[Column[ShapesRow]] = [
        time("first", lambda row: row.first),
        time("later", lambda row: row.later),
        time("a copy", lambda row: row.copy),
        time("numpy", lambda row: row.numpy or None),
        ratio("ratio", lambda row: row.ratio),
    ]
    return Table("ratio: of later runs, less a fixed cost, to numpy or a copy", 44, columns)


def goals() -> list[Goal[ShapesRow]]:
    first, title = f"{_MOST_FIRST_MS:.0f} ms more for the first run", f"{_MOST_RATIO:.0f}x of numpy or a copy later"
    return [
        Goal(first, lambda row: True, lambda row: 1e-3 * (row.first - row.later), _MOST_FIRST_MS, False, " ms"),
        Goal(title, lambda row: True, lambda row: row.ratio, _MOST_RATIO, False),
    ]


def summary(rows: Sequence[ShapesRow]) -> list[str]:
    """The verdicts, a line each."""
    return [*disturbed_lines(rows), *(goal.verdict(rows) for goal in goals())]
