"""From the times of planning to text; nothing is measured here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from spmd_grid.bench.common.rows import Goal, markdown_table
from spmd_grid.bench.plan.cases import MILLION, PlanCase
from spmd_grid.bench.plan.times import PlanTimes

__all__ = ["PlanRow", "goals", "rows_of", "summary", "table_head", "table_row", "to_markdown"]


@dataclass
class PlanRow:
    """Medians, in microseconds; ``low`` and ``high``: the 10th and the 90th percentile.

    ``us``: to plan; ``shardings_us``: to make both shardings before that; ``auto_us``: of plan_reshard, strategy
    "auto"; ``totals_us``: of the plan's totals over all devices.  ``growth``: how many times longer it took than on
    the smallest grid of the same kind and number of axes, by the 10th percentiles, which other work disturbs least.
    """

    case: PlanCase
    receives: int
    sends: int
    partners: int
    us: float
    low: float
    high: float
    shardings_us: float
    auto_us: float
    totals_us: float
    growth: float | None = None

    @property
    def per_partner(self) -> float | None:
        return self.us / self.partners if self.partners else None

    @property
    def per_message(self) -> float | None:
        """Of those that come and go."""
        return self.us / (self.receives + self.sends) if self.partners else None

    def to_dict(self) -> dict:
        more = {"us_per_partner": self.per_partner, "us_per_message": self.per_message}
        return {"row": self.case.name, "devices": self.case.devices, **asdict(self), **more}


def rows_of(times: Iterable[PlanTimes]) -> list[PlanRow]:
    """A row for each case."""
    rows, smallest = [], {}
    for each in times:
        low, us, high = np.percentile(each.seconds, (10, 50, 90)) * 1e6
        more = [1e6 * float(np.median(seconds)) for seconds in (each.shardings, each.auto, each.totals)]
        found = each.receives, each.sends, each.partners
        row = PlanRow(each.case, *found, float(us), float(low), float(high), *more)
        alike = each.case.kind, len(each.case.grid_shape)
        if alike in smallest:
            row.growth = row.low / smallest[alike]
        smallest.setdefault(alike, row.low)
        rows.append(row)
    return rows


# -- the table -------------------------------------------------------------------------------------------------

_COLUMNS = (
    "devices",
    "receives",
    "sends",
    "partners",
    "plan us",
    "(10-90 %)",
    "per partner",
    "per message",
    "shardings us",
    "auto ms",
    "totals ms",
)
_WIDTHS = (10, 10, 8, 10, 11, 20, 13, 13, 14, 10, 11)
_LABEL = 46


def table_head() -> str:
    cells = "".join(f"{column:>{width}s}" for column, width in zip(_COLUMNS, _WIDTHS, strict=True))
    return f"{'time for one process to plan':{_LABEL}s}{cells}"


def table_row(row: PlanRow) -> str:
    cells = "".join(f"{cell:>{width}s}" for cell, width in zip(_cells(row), _WIDTHS, strict=True))
    return f"{row.case.name:{_LABEL}s}{cells}"


def to_markdown(rows: Sequence[PlanRow], caption: str) -> str:
    """The table and the verdicts."""
    table = markdown_table(["kind, grid", *_COLUMNS], [[row.case.name, *_cells(row)] for row in rows])
    return "\n".join([caption, "", *table, "", "```", *summary(rows), "```"]) + "\n"


def _cells(row: PlanRow) -> list[str]:
    return [
        f"{row.case.devices:,}",
        *(f"{number:,}" for number in (row.receives, row.sends, row.partners)),
        f"{row.us:.1f}",
        f"({row.low:.1f}-{row.high:.1f})",
        *("-" if each is None else f"{each:.1f}" for each in (row.per_partner, row.per_message)),
        f"{row.shardings_us:.1f}",
        f"{row.auto_us / 1e3:.2f}",
        f"{row.totals_us / 1e3:.2f}",
    ]


# -- the summary -----------------------------------------------------------------------------------------------


def goals() -> list[Goal]:
    def on_a_million(case: PlanCase) -> bool:
        return case.devices == MILLION

    return [
        Goal(
            "100 us for swap, reorder and move",
            lambda case: case.kind in ("swap", "reorder", "move"),
            lambda row: row.us,
            100.0,
            False,
            " us",
        ),
        Goal(
            "10 ms with 1,500 partners",
            lambda case: case.kind.startswith("1,500 partners"),
            lambda row: row.us / 1e3,
            10.0,
            False,
            " ms",
        ),
        Goal("no growth with devices, up to a quarter", lambda case: True, lambda row: row.growth, 1.25, False),
        Goal(
            "all of plan_reshard and totals() in 1 s, a million devices",
            on_a_million,
            lambda row: (row.auto_us + row.totals_us) / 1e6,
            1.0,
            False,
            " s",
        ),
    ]


def summary(rows: Sequence[PlanRow]) -> list[str]:
    """The verdicts, a line each."""
    return [goal.verdict(rows) for goal in goals()]
