"""What the rows of all benchmarks have in common: names to find them by, figures, and goals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from spmd_grid.bench.common.timing import Times
from spmd_grid.exchange.agreement.memory_meeting import FAR_SECONDS

__all__ = [
    "LIBRARIES",
    "LIMIT",
    "OURS",
    "Figure",
    "Goal",
    "Row",
    "figures_of",
    "is_disturbed",
    "library_lines",
    "markdown_table",
    "matching_cases",
    "slower_lines",
    "slower_rows",
]

OURS = "spmd_grid"  # ours as it is called first of all, and how the names of our other ways begin
LIMIT = "numpy.copyto"  # a copy of as many bytes, which is what memory allows
LIBRARIES = "mpi4py-fft", "heat", "DTensor", "JAX"  # how the names of other libraries' ways begin
_DISTURBED = 1.3  # the upper quartile over the lower one, for half of the contenders


def matching_cases(cases: Sequence, pattern: str) -> list:
    """Those whose name contains ``pattern``, in which ``*`` and ``?`` stand for anything.

    >>> from spmd_grid.bench.halo.cases import all_cases
    >>> [case.name for case in matching_cases(all_cases(), "2-d 64^2 rows, 3*width 2")]
    ['2-d 64^2 rows, 3 fields, width 2, face 1 KiB']
    """
    return [case for case in cases if fnmatchcase(case.name, f"*{pattern}*")]


# -- figures ---------------------------------------------------------------------------------------------------


class Figure(NamedTuple):
    """Microseconds per call: the median, and where the middle 80 % (``low`` to ``high``) and the middle half lie.

    All but ``raw``, the median again, are without those that rewriting takes.
    """

    us: float
    low: float
    high: float
    raw: float
    calls: int
    quartiles: tuple[float, float] = (0.0, 0.0)


def figures_of(times: Times, bases: Mapping[str, str]) -> dict[str, Figure]:
    """A figure for each contender that ``bases`` names, the median of its base subtracted."""
    figures = {}
    for name, base in bases.items():
        taken = 1e6 * times.median(base)
        median = 1e6 * times.median(name)
        low, lower, upper, high = (1e6 * times.percentile(name, percent) - taken for percent in (10, 25, 75, 90))
        figures[name] = Figure(median - taken, low, high, median, times.calls[name], (lower, upper))
    return figures


def is_disturbed(times: Times) -> bool:
    """Whether other work took part of the processor: most contenders took other times from round to round."""
    quartiles = sorted(times.percentile(name, 75) / times.percentile(name, 25) for name in times.seconds)
    return quartiles[len(quartiles) // 2] > _DISTURBED


@dataclass
class Row:
    """What was measured in one row, by contender.

    ``rewriting_us``: what was subtracted; ``plan``: what ours says of itself; ``disturbed``: as `is_disturbed`;
    ``skipped``: the libraries that took no part in this row, and why; ``hop_ns``: what a word took from processor to
    processor, before the row or after it, whichever was longer.
    """

    case: Any
    by_contender: dict[str, Figure]
    rewriting_us: dict[str, float] = field(default_factory=dict)
    rounds: int = 0
    plan: str = ""
    disturbed: bool = False
    skipped: dict[str, str] = field(default_factory=dict)
    hop_ns: float | None = None

    @property
    def far(self) -> bool:
        """Whether the processors had no cache in common, as far as that was asked."""
        return self.hop_ns is not None and self.hop_ns > 1e9 * FAR_SECONDS

    @classmethod
    def from_dict(cls, case_type: type, figures: Mapping) -> Row:
        """The row that `to_dict` made this of, read from JSON again."""
        case = case_type(**{each.name: _as_kept(figures[each.name]) for each in fields(case_type)})
        by_contender = {name: Figure(**figure) for name, figure in figures["contenders"].items()}
        return cls(case, by_contender, **{name: figures[name] for name in _KEPT if name in figures})

    def to_dict(self) -> dict:
        """All of it and what follows from it, for JSON."""
        return {
            "row": self.case.name,
            **asdict(self.case),
            **{name: getattr(self, name) for name in _KEPT},
            "best_peer": self.best(),
            "best_peer_over_ours": self.over_best,
            "contenders": {name: figure._asdict() for name, figure in self.by_contender.items()},
        }

    def us(self, name: str) -> float | None:
        figure = self.by_contender.get(name)
        return None if figure is None else figure.us

    def by_hand(self) -> list[str]:
        """The contenders that are written by hand."""
        return [name for name in self.by_contender if not name.startswith((OURS, LIMIT, *LIBRARIES))]

    def best_of(self, library: str) -> str | None:
        """The fastest of a library's ways, if it took part."""
        ways = [name for name in self.by_contender if name.startswith(library)]
        return min(ways, key=lambda name: self.by_contender[name].us) if ways else None

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


_KEPT = "rewriting_us", "rounds", "plan", "disturbed", "skipped", "hop_ns"  # what JSON holds of a row as it is


def _as_kept(value):
    """JSON has lists where shapes were."""
    return tuple(value) if isinstance(value, list) else value


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
    if far := sum(row.far for row in rows):
        lines.append(
            f"In {far} of {len(rows)} rows the processors were far apart (over {1e9 * FAR_SECONDS:.0f} ns): 'far'"
        )
    lines.append(
        f"Slower than the best hand-written variant in {len(slower)} of {len(rows)} rows" + (":" if slower else ".")
    )
    return lines + [f"    {row.case.name}: {row.over_best:.2f}x of {row.best()}" for row in slower]


def library_lines(rows: Sequence[Row]) -> list[str]:
    """How many times longer than ours each library took, and where it took no part, a line each."""
    lines = []
    for library in LIBRARIES:
        ratios = sorted((row.ratio(way, OURS), row.case.name) for row in rows if (way := row.best_of(library)))
        if ratios:
            (least, first), (most, last) = ratios[0], ratios[-1]
            middle = ratios[len(ratios) // 2][0]
            lines.append(
                f"{library} takes {middle:.2f}x as long as ours in the median of {len(ratios)} rows; {least:.2f}x"
                f" ({first}) to {most:.2f}x ({last})"
            )
        reasons = Counter(row.skipped[library] for row in rows if library in row.skipped)
        lines += [f"{library} skipped in {n} of {len(rows)} rows: {reason}" for reason, n in reasons.items()]
    return lines


def markdown_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *lines)]
