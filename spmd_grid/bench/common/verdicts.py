"""Verdicts on the rows of a benchmark: goals met or missed, slower rows, and how other libraries compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from spmd_grid.bench.common.rows import LIBRARIES, OURS, NamedCase, Row
from spmd_grid.exchange.transfer.distance import SLOW_WORD

__all__ = ["Goal", "disturbed_lines", "library_lines", "slower_lines", "slower_rows"]


class AnyRow(Protocol):
    """A row of any benchmark."""

    @property
    def case(self) -> NamedCase: ...


class _Disturbable(Protocol):
    @property
    def disturbed(self) -> bool: ...


AnyRowT = TypeVar("AnyRowT", bound=AnyRow)


class Goal(NamedTuple, Generic[AnyRowT]):
    """A bound on ``value`` in the rows to which it ``applies``: at least, or at most, ``bound``, in ``unit``."""

    title: str
    applies: Callable[[AnyRowT], bool]
    value: Callable[[AnyRowT], float | None]
    bound: float
    at_least: bool
    unit: str = "x"

    def verdict(self, rows: Sequence[AnyRowT]) -> str:
        """One line: whether all ``rows`` meet the goal, and the row furthest from it."""
        measured = [(value, row) for row in rows if self.applies(row) and (value := self.value(row)) is not None]
        if not measured:
            return f"not measured  {self.title}"
        met = [value >= self.bound if self.at_least else value <= self.bound for value, _ in measured]
        worst, row = (min if self.at_least else max)(measured, key=lambda pair: pair[0])
        return (
            f"{'met' if all(met) else 'missed':12s}  {self.title}: {sum(met)} of {len(met)} rows;"
            f" {'least' if self.at_least else 'most'} {worst:.2f}{self.unit} ({row.case.name})"
        )


def slower_rows(rows: Sequence[Row[Any]]) -> list[Row[Any]]:
    """The rows in which ours is slower than the best hand-written contender."""
    return [row for row in rows if row.over_best < 1]


def disturbed_lines(rows: Sequence[_Disturbable]) -> list[str]:
    """A warning if other work on the machine disturbed any row."""
    disturbed = sum(row.disturbed for row in rows)
    warning = f"WARNING: other work on the machine disturbed {disturbed} of {len(rows)} rows; measure again"
    return [warning] * bool(disturbed)


def slower_lines(rows: Sequence[Row[Any]]) -> list[str]:
    """Warnings if the figures cannot be trusted, then the slower rows, a line each."""
    lines = disturbed_lines(rows)
    if far := sum(row.far for row in rows):
        lines.append(
            f"In {far} of {len(rows)} rows the processors were far apart (over {1e9 * SLOW_WORD:.0f} ns): 'far'"
        )
    slower = slower_rows(rows)
    lines.append(
        f"Slower than the best hand-written variant in {len(slower)} of {len(rows)} rows" + (":" if slower else ".")
    )
    return lines + [f"    {row.case.name}: {row.over_best:.2f}x of {row.best()}" for row in slower]


def library_lines(rows: Sequence[Row[Any]]) -> list[str]:
    """The time of each library relative to ours, and why it was skipped, a line each."""
    lines = []
    for library in LIBRARIES:
        ratios = sorted(
            (row.ratio(variant, OURS), row.case.name) for row in rows if (variant := row.best_of(library)) is not None
        )
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
