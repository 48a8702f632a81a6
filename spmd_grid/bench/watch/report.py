"""From the figures of the benchmark of watching to text; nothing is measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spmd_grid.bench.common.rows import Figure, Goal
from spmd_grid.bench.common.table import Column, Table, remark, time_of
from spmd_grid.bench.watch.cases import WatchCase, all_cases
from spmd_grid.bench.watch.modes import CHECKED, LOOK, PLAIN, RECORDED

__all__ = ["WatchRow", "difference", "goals", "off", "summary", "table"]


@dataclass
class WatchRow:
    """What was measured in one row: the time of an operation by mode, and that of a look."""

    case: WatchCase
    by_contender: dict[str, Figure]
    looks: int
    rounds: int = 0
    disturbed: bool = False
    far = False  # how far apart the processors are matters to all modes alike

    @classmethod
    def from_dict(cls, figures: Mapping) -> WatchRow:
        """The row that `to_dict` made this of, read from JSON again."""
        (case,) = (case for case in all_cases() if case.name == figures["row"])
        by_contender = {name: Figure(**figure) for name, figure in figures["contenders"].items()}
        return cls(case, by_contender, figures["looks"], figures["rounds"], figures["disturbed"])

    def to_dict(self) -> dict:
        """All of it and what follows from it, for JSON."""
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
        """What recording and checking add."""
        return self.us(CHECKED) - self.us(PLAIN)

    @property
    def off_ns(self) -> float:
        """What all looks of an operation take where nothing is watched."""
        return 1e3 * self.looks * self.us(LOOK)


def difference(head: str) -> Column:
    """What checking adds."""
    return Column(head, 13, lambda row: f"{row.added_us:.2f} us")


def off(head: str) -> Column:
    """What asking costs, and how often it is done."""

    def cell(row: WatchRow) -> str:
        return f"{row.off_ns:.0f} ns ({row.looks} look{'s' * (row.looks != 1)})"

    return Column(head, 18, cell)


def table() -> Table:
    columns = [
        time_of("plain", PLAIN, 10),
        time_of("recorded", RECORDED, 11),
        time_of("checked", CHECKED, 10),
        difference("difference"),
        off("off"),
    ]
    return Table("time per operation", 44, columns, [remark("remark")])


def goals() -> list[Goal]:
    return [
        Goal("checking adds at most 15 us", lambda case: True, lambda row: row.added_us, 15.0, False, " us"),
        Goal("at most 50 ns where it is off", lambda case: True, lambda row: row.off_ns, 50.0, False, " ns"),
    ]


def summary(rows: Sequence[WatchRow]) -> list[str]:
    """The verdicts, a line each; first of all, how far the figures can be trusted."""
    disturbed = sum(row.disturbed for row in rows)
    warning = f"WARNING: other work on the machine disturbed {disturbed} of {len(rows)} rows; measure again"
    return [warning] * bool(disturbed) + [goal.verdict(rows) for goal in goals()]
