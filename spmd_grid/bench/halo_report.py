"""From the figures of the halo benchmark to text; nothing is measured here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from spmd_grid.bench.halo_cases import HaloCase
from spmd_grid.bench.halo_peers import PERSISTENT

__all__ = [
    "IN_LOOP",
    "MESSAGE",
    "MESSAGE_IN_LOOP",
    "OURS",
    "Figure",
    "RowFigures",
    "goals",
    "slower_rows",
    "summary",
    "table_head",
    "table_row",
    "to_markdown",
]

OURS, IN_LOOP = "spmd_grid", "spmd_grid in-loop"
MESSAGE, MESSAGE_IN_LOOP = "spmd_grid message path", "spmd_grid message path in-loop"


class Figure(NamedTuple):
    """Microseconds per update; all but ``raw`` (median) without those that rewriting the faces takes."""

    us: float
    low: float
    high: float
    raw: float
    calls: int


@dataclass
class RowFigures:
    """What was measured in one row, by contender.

    ``plan``: what the exchange says of itself.  ``disturbed``: whether other work took part of the processor, so that
    most contenders took different times from round to round.
    """

    case: HaloCase
    by_contender: dict[str, Figure]
    rewriting_us: dict[str, float] = field(default_factory=dict)
    rounds: int = 0
    plan: str = ""
    disturbed: bool = False

    @property
    def way(self) -> str:
        """How the bytes go to the neighbours, in the words of the plan."""
        return " and ".join(sorted(set(re.findall(r"^ *rank .*?\) (.*?): sends", self.plan, re.MULTILINE))))

    def us(self, name: str) -> float | None:
        figure = self.by_contender.get(name)
        return None if figure is None else figure.us

    def best(self, beginning: str = "") -> str:
        """The fastest hand-written contender whose name begins so."""
        peers = [name for name in self.by_contender if not name.startswith(OURS) and name.startswith(beginning)]
        return min(peers, key=lambda name: self.by_contender[name].us)

    @property
    def over_best(self) -> float:
        """How many times longer the best hand-written one takes than ours called from Python."""
        return self._ratio(self.best())

    @property
    def over_persistent(self) -> float:
        return self._ratio(self.best(PERSISTENT))

    def _ratio(self, peer: str) -> float:
        ours, theirs = self.by_contender[OURS].us, self.by_contender[peer].us
        return theirs / ours if ours > 0 else float("inf")

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
    lines = [caption, "", "| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join([row.case.name, *_cells(row), row.best(), _remark(row)]) + " |" for row in rows]
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


class Goal(NamedTuple):
    """What was aimed at in the rows that ``applies`` names: ``value`` at least, or at most, ``bound``."""

    title: str
    applies: Callable[[HaloCase], bool]
    value: Callable[[RowFigures], float | None]
    bound: float
    at_least: bool

    def verdict(self, rows: Sequence[RowFigures]) -> str:
        found = [(self.value(row), row) for row in rows if self.applies(row.case)]
        found = [(value, row) for value, row in found if value is not None]
        if not found:
            return f"not measured  {self.title}"
        met = [value >= self.bound if self.at_least else value <= self.bound for value, _ in found]
        worst, row = (min if self.at_least else max)(found, key=lambda pair: pair[0])
        figure = f"{worst:.2f}x" if self.at_least else f"{worst:.2f} us"
        return (
            f"{'met' if all(met) else 'missed':12s}  {self.title}: {sum(met)} of {len(met)} rows;"
            f" {'least' if self.at_least else 'most'} {figure} ({row.case.name})"
        )


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
        Goal("0.3 us in-loop, 64^2 rows", small_rows, lambda row: row.us(IN_LOOP), 0.3, False),
        Goal("1 us from Python, 64^2 rows", small_rows, lambda row: row.us(OURS), 1.0, False),
    ]


def slower_rows(rows: Sequence[RowFigures]) -> list[RowFigures]:
    """Those in which ours, called from Python, is slower than the best hand-written contender."""
    return [row for row in rows if row.over_best < 1]


def summary(rows: Sequence[RowFigures]) -> list[str]:
    """The verdicts, a line each."""
    slower = slower_rows(rows)
    disturbed = sum(row.disturbed for row in rows)
    lines = []
    if disturbed:
        lines.append(f"WARNING: other work on the machine disturbed {disturbed} of {len(rows)} rows; measure again")
    lines += [
        f"Slower than the best hand-written variant in {len(slower)} of {len(rows)} rows" + (":" if slower else ".")
    ]
    lines += [f"    {row.case.name}: {row.over_best:.2f}x of {row.best()}" for row in slower]
    return [*lines, *(goal.verdict(rows) for goal in goals())]
