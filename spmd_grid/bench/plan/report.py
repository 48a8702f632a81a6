"""Table and verdicts of the planning benchmark; nothing is measured here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from spmd_grid.bench.common.table import Column, Table, number, spread, time
from spmd_grid.bench.common.verdicts import Goal
from spmd_grid.bench.plan.cases import MILLION, PlanCase

__all__ = ["PlanRow", "PlanTimes", "goals", "rows_of", "summary", "table"]


@dataclass
class PlanTimes:
    """Seconds of each time that a process planned, and the numbers of its messages and partners.

    ``shardings``: seconds to make both shardings beforehand; ``auto``: of plan_reshard with strategy "auto";
    ``totals``: of that plan's totals over all devices.
    """

    case: PlanCase
    receives: int
    sends: int
    partners: int
    seconds: list[float] = field(default_factory=list)
    shardings: list[float] = field(default_factory=list)
    auto: list[float] = field(default_factory=list)
    totals: list[float] = field(default_factory=list)


@dataclass
class PlanRow:
    """Medians in microseconds; ``low`` and ``high``: the 10th and the 90th percentile.

    ``us``: to plan; ``shardings_us``: to make both shardings beforehand; ``auto_us``: of plan_reshard, strategy
    "auto"; ``totals_us``: of the plan's totals over all devices.  ``growth``: time relative to the smallest grid of the
    same kind and number of axes, by the 10th percentiles, which other work disturbs least.
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
        """Microseconds per message sent or received."""
        return self.us / (self.receives + self.sends) if self.partners else None

    def to_dict(self) -> dict[str, Any]:
        more = {"us_per_partner": self.per_partner, "us_per_message": self.per_message}
        return {"row": self.case.name, "devices": self.case.devices, **asdict(self), **more}


def rows_of(times: Iterable[PlanTimes]) -> list[PlanRow]:
    """A row for each case."""
    rows: list[PlanRow] = []
    smallest: dict[tuple[str, int], float] = {}
    for each in times:
        low, us, high = (float(1e6 * value) for value in np.percentile(each.seconds, (10, 50, 90)))
        more = [1e6 * float(np.median(seconds)) for seconds in (each.shardings, each.auto, each.totals)]
        row = PlanRow(each.case, each.receives, each.sends, each.partners, us, low, high, *more)
        alike = each.case.kind, len(each.case.grid_shape)
        if alike in smallest:
            row.growth = row.low / smallest[alike]
        smallest.setdefault(alike, row.low)
        rows.append(row)
    return rows


def table() -> Table[PlanRow]:
    columns: list[Column[PlanRow]] = [
        number("devices", lambda row: row.case.devices, 10),
        number("receives", lambda row: row.receives),
        number("sends", lambda row: row.sends, 8),
        number("partners", lambda row: row.partners),
        time("plan", lambda row: row.us),
        spread(lambda row: row.low, lambda row: row.high),
        time("per partner", lambda row: row.per_partner),
        time("per message", lambda row: row.per_message),
        time("shardings", lambda row: row.shardings_us),
        time("auto", lambda row: row.auto_us),
        time("totals", lambda row: row.totals_us),
    ]
    return Table("time for one process to plan", 46, columns)


def goals() -> list[Goal[PlanRow]]:
    return [
        Goal(
            "100 us for swap, reorder and move",
            lambda row: row.case.kind in ("swap", "reorder", "move"),
            lambda row: row.us,
            100.0,
            False,
            " us",
        ),
        Goal(
            "10 ms with 1,500 partners",
            lambda row: row.case.kind.startswith("1,500 partners"),
            lambda row: row.us / 1e3,
            10.0,
            False,
            " ms",
        ),
        Goal(
            "at most a quarter of growth with the devices",
            lambda row: True,
            lambda row: row.growth,
            1.25,
            False,
        ),
        Goal(
            "plan_reshard and totals() in 1 s on a million devices",
            lambda row: row.case.devices == MILLION,
            lambda row: (row.auto_us + row.totals_us) / 1e6,
            1.0,
            False,
            " s",
        ),
    ]


def summary(rows: Sequence[PlanRow]) -> list[str]:
    """The verdicts, a line each."""
    return [goal.verdict(rows) for goal in goals()]
