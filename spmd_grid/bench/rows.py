"""What the rows of all benchmarks have in common: names to find them by, figures, and goals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from spmd_grid.bench.timing import Times

__all__ = [
    "OURS",
    "Figure",
    "Goal",
    "Row",
    "figures_of",
    "is_disturbed",
    "markdown_table",
    "matching_cases",
    "slower_lines",
    "slower_rows",
]

OURS = "spmd_grid"  # ours as it is called first of all, and how the names of our other ways begin
_DISTURBED = 1.3  # the upper quartile over the lower one, for half of the contenders


def matching_cases(cases: Sequence, pattern: str) -> list:
    """Those whose name contains ``pattern``, in which ``*`` and ``?`` stand for anything.

    >>> from spmd_grid.bench.halo_cases import all_cases
    >>> [case.name for case in matching_cases(all_cases(), "2-d 64^2 rows, 3*width 2")]
    ['2-d 64^2 rows, 3 fields, width 2, face 1 KiB']
    """
    return [case for case in cases if fnmatchcase(case.name, f"*{pattern}*")]


# -- figures ---------------------------------------------------------------------------------------------------


class Figure(NamedTuple):
    """Microseconds per call, 10th to 90th percentile; all but ``raw`` (median) without those that rewriting takes."""

    us: float
    low: float
    high: float
    raw: float
    calls: int


def figures_of(times: Times, bases: Mapping[str, str]) -> dict[str, Figure]:
    """A figure for each contender that ``bases`` names, the median of its base subtracted."""
    figures = {}
    for name, base in bases.items():
        low, median, high = (1e6 * times.percentile(name, percent) for percent in (10, 50, 90))
        taken = 1e6 * times.median(base)
        figures[name] = Figure(median - taken, low - taken, high - taken, median, times.calls[name])
    return figures


def is_disturbed(times: Times) -> bool:
    """Whether other work took part of the processor: most contenders took other times from round to round."""
    quartiles = sorted(times.percentile(name, 75) / times.percentile(name, 25) for name in times.seconds)
    return quartiles[len(quartiles) // 2] > _DISTURBED


@dataclass
class Row:
    """What was measured in one row, by contender.

    ``rewriting_us``: what was subtracted; ``plan``: what ours says of itself; ``disturbed``: as `is_disturbed`.
    """

    case: Any
    by_contender: dict[str, Figure]
    rewriting_us: dict[str, float] = field(default_factory=dict)
    rounds: int = 0
    plan: str = ""
    disturbed: bool = False

    def us(self, name: str) -> float | None:
        figure = self.by_contender.get(name)
        return None if figure is None else figure.us

    def by_hand(self) -> list[str]:
        """The contenders that are written by hand."""
        return [name for name in self.by_contender if not name.startswith(OURS)]

    def best(self, beginning: str = "") -> str:
        """The fastest hand-written contender whose name begins so."""
        peers = [name for name in self.by_hand() if name.startswith(beginning)]
        return min(peers, key=lambda name: self.by_contender[name].us)

    def ratio(self, name: str, over: str) -> float:
        """How many times longer ``name`` takes than ``over``."""
        us, other = self.by_contender[name].us, self.by_contender[over].us
        return us / other if other > 0 else float("inf")

    @property
    def over_best(self) -> float:
        """How many times longer the best hand-written one takes than ours."""
        return self.ratio(self.best(), OURS)


# -- verdicts --------------------------------------------------------------------------------------------------


class Goal(NamedTuple):
    """What was aimed at in the rows whose case ``applies``: ``value``, in ``unit``, at least, or at most, ``bound``."""

    title: str
    applies: Callable[[Any], bool]
    value: Callable[[Any], float | None]
    bound: float
    at_least: bool
    unit: str = "x"

    def verdict(self, rows: Sequence) -> str:
        """Whether all of ``rows`` meet it, and which is furthest from it."""
        found = [(self.value(row), row) for row in rows if self.applies(row.case)]
        found = [(value, row) for value, row in found if value is not None]
        if not found:
            return f"not measured  {self.title}"
        met = [value >= self.bound if self.at_least else value <= self.bound for value, _ in found]
        worst, row = (min if self.at_least else max)(found, key=lambda pair: pair[0])
        return (
            f"{'met' if all(met) else 'missed':12s}  {self.title}: {sum(met)} of {len(met)} rows;"
            f" {'least' if self.at_least else 'most'} {worst:.2f}{self.unit} ({row.case.name})"
        )


def slower_rows(rows: Sequence[Row]) -> list[Row]:
    """Those in which ours is slower than the best hand-written contender."""
    return [row for row in rows if row.over_best < 1]


def slower_lines(rows: Sequence[Row]) -> list[str]:
    """Which rows are slower, a line each; first of all, how far the figures can be trusted."""
    disturbed, slower = sum(row.disturbed for row in rows), slower_rows(rows)
    lines = []
    if disturbed:
        lines.append(f"WARNING: other work on the machine disturbed {disturbed} of {len(rows)} rows; measure again")
    lines.append(
        f"Slower than the best hand-written variant in {len(slower)} of {len(rows)} rows" + (":" if slower else ".")
    )
    return lines + [f"    {row.case.name}: {row.over_best:.2f}x of {row.best()}" for row in slower]


def markdown_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *lines)]
