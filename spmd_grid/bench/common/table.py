"""One table for the terminal and for Markdown, made of columns that say how a row fills them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from spmd_grid.bench.common.rows import OURS, Figure, NamedCase, Row
from spmd_grid.formatting import seconds_text

__all__ = [
    "Column",
    "Table",
    "TableRow",
    "best_by_hand",
    "markdown_table",
    "number",
    "ours",
    "ratio",
    "remark",
    "spread",
    "time",
    "time_of",
]


class TableRow(Protocol):
    """A row with a name."""

    @property
    def case(self) -> NamedCase: ...


class _Timed(Protocol):
    by_contender: dict[str, Figure]


class _Remarked(Protocol):
    @property
    def disturbed(self) -> bool: ...

    @property
    def far(self) -> bool: ...


R = TypeVar("R", contravariant=True)
NamedR = TypeVar("NamedR", bound=TableRow)
TimedR = TypeVar("TimedR", bound=_Timed)
RemarkedR = TypeVar("RemarkedR", bound=_Remarked)


class Column(NamedTuple, Generic[R]):
    """A column at least ``width`` wide."""

    head: str
    width: int
    cell: Callable[[R], str]


class Table(NamedTuple, Generic[NamedR]):
    """Names of rows below ``title``, at most ``label_width`` wide, then columns aligned to the right.

    ``notes``: the columns at the end, aligned to the left.
    """

    title: str
    label_width: int
    columns: Sequence[Column[NamedR]]
    notes: Sequence[Column[NamedR]] = ()

    def head(self) -> str:
        return self._line(self.title, lambda column: column.head)

    def line(self, row: NamedR) -> str:
        return self._line(row.case.name, lambda column: column.cell(row))

    def _line(self, label: str, cell: Callable[[Column[NamedR]], str]) -> str:
        cells = "".join(f"{cell(column):>{column.width}s}" for column in self.columns)
        notes = "".join(f"  {cell(column):{column.width}s}" for column in self.notes)
        return f"{label:{self.label_width}s}{cells}{notes}".rstrip()

    def markdown(self, rows: Sequence[NamedR]) -> list[str]:
        """The lines of the table in Markdown."""
        columns = [*self.columns, *self.notes]
        lines = [[row.case.name, *(column.cell(row) for column in columns)] for row in rows]
        return markdown_table(["row", *(column.head for column in columns)], lines)


def markdown_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown."""
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *lines)]


# -- columns ---------------------------------------------------------------------------------------------------


def time(head: str, us: Callable[[R], float | None], width: int = 0) -> Column[R]:
    """A time, given in microseconds; a dash for None."""

    def cell(row: R) -> str:
        found = us(row)
        return "-" if found is None else seconds_text(1e-6 * found)

    return Column(head, max(width, len(head) + 2, 9), cell)


def time_of(head: str, contender: str | Callable[[TimedR], str | None], width: int = 0) -> Column[TimedR]:
    """The time of a contender, or of the one that a function names; a dash if there is none."""

    def us(row: TimedR) -> float | None:
        figure = row.by_contender.get((contender if isinstance(contender, str) else contender(row)) or "")
        return None if figure is None else figure.us

    return time(head, us, width)


def spread(low: Callable[[R], float], high: Callable[[R], float]) -> Column[R]:
    """The 10th and the 90th percentile, given in microseconds."""
    return Column("(10-90 %)", 20, lambda row: f"({seconds_text(1e-6 * low(row))}-{seconds_text(1e-6 * high(row))})")


def ours() -> list[Column[Row[Any]]]:
    """The time of our default variant, and its spread."""
    return [
        time_of("ours", OURS, 9),
        spread(lambda row: row.by_contender[OURS].low, lambda row: row.by_contender[OURS].high),
    ]


def ratio(head: str, value: Callable[[R], float | None]) -> Column[R]:
    def cell(row: R) -> str:
        found = value(row)
        return "-" if found is None else f"{found:.2f}"

    return Column(head, len(head) + 2, cell)


def number(head: str, value: Callable[[R], int], width: int = 0) -> Column[R]:
    return Column(head, max(width, len(head) + 2), lambda row: f"{value(row):,}")


def best_by_hand(width: int) -> Column[Row[Any]]:
    """The name of the fastest hand-written contender."""
    return Column("which by hand", width, lambda row: row.best())


def remark(head: str, text: Callable[[RemarkedR], str] = lambda row: "") -> Column[RemarkedR]:
    """The last note, which also says whether the processors were far apart and whether other work disturbed the row."""
    return Column(head, 0, lambda row: (text(row) + " (far)" * row.far + " (disturbed)" * row.disturbed).strip())
