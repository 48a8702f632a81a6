"""Table and verdicts of the watch benchmark; nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spmd_grid.bench.common.rows import Figure
from spmd_grid.bench.common.table import Column, Table, remark, time_of
from spmd_grid.bench.common.verdicts import Goal, disturbed_lines
from spmd_grid.bench.watch.cases import WatchCase, all_cases
from spmd_grid.bench.watch.modes import CHECKED, LOOK, PLAIN, RECORDED
from spmd_grid.formatting import count_text

__all__ = ["WatchRow", "difference", "goals", "off", "summary", "table"]


@dataclass
class WatchRow:
    """The figures of one row: the time of an operation by mode, and the time of a look."""

    case: WatchCase
    by_contender: dict[str, Figure]
    looks: int
    rounds: int = 0
    disturbed: bool = False
    far: ClassVar[bool] = False  # the distance of the processors affects all modes alike

    @classmethod
    def from_dict(cls, figures: Mapping[str, Any]) -> WatchRow:
        """The row whose `to_dict` gave ``figures``, read back from JSON."""
        (case,) = (case for case in all_cases() if case.name == figures["row"])
        by_contender = {name: Figure(**figure) for name, figure in figures["contenders"].items()}
        return cls(case, by_contender, figures["looks"], figures["rounds"], figures["disturbed"])

    def to_dict(self) -> dict[str, Any]:
        """All fields and the differences that follow from them, for JSON."""
        return {
            "row": self.case.name,
            "rounds": self.rounds,
            "disturbed": self.disturbed,
            "looks": self.looks,
            "added_us": self.added_us,
            "off_ns": self.off_ns,
            "contenders": {name: figure._asdict() for name, figure in self.by_contender.items()},
        }

    def us(self, name: str) -> float:
        return self.by_contender[name].us

    @property
    def added_us(self) -> float:
        """Microseconds that recording and checking add."""
        return self.us(CHECKED) - self.us(PLAIN)

    @property
    def off_ns(self) -> float:
        """Nanoseconds of all looks of an operation that is not watched."""
        return 1e3 * self.looks * self.us(LOOK)


def difference(head: str) -> Column[WatchRow]:
    """The time that checking adds."""
    return Column(head, 13, lambda row: f"{row.added_us:.2f} us")


def off(head: str) -> Column[WatchRow]:
    """The time of all looks, and their number."""

    def cell(row: WatchRow) -> str:
        return f"{row.off_ns:.0f} ns ({count_text(row.looks, 'look')})"

    return Column(head, 18, cell)


def table() -> Table[WatchRow]:
    columns: list[Column[WatchRow]] = [
        time_of("plain", PLAIN, 10),
        time_of("recorded", RECORDED, 11),
        time_of("checked", CHECKED, 10),
        difference("difference"),
        off("off"),
    ]
    return Table("time per operation", 44, columns, [remark("remark")])


def goals() -> list[Goal[WatchRow]]:
    return [
        Goal("checking adds at most 15 us", lambda row: True, lambda row: row.added_us, 15.0, False, " us"),
        Goal("at most 50 ns when it is off", lambda row: True, lambda row: row.off_ns, 50.0, False, " ns"),
    ]


def summary(rows: Sequence[WatchRow]) -> list[str]:
    """A warning if the figures cannot be trusted, then the verdicts, a line each."""
    return disturbed_lines(rows) + [goal.verdict(rows) for goal in goals()]
