"""One table for the terminal and for Markdown, made of columns that say how a row fills them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from spmd_grid.bench.common.rows import OURS, Row, markdown_table

__all__ = ["Column", "Table", "in_bytes", "in_time", "ours", "ratio", "remark", "time_of", "which"]


class Column(NamedTuple):
    """``width`` at least; notes are the columns at the end, aligned to the left."""

    head: str
    width: int
    cell: Callable[[Row], str]


class Table(NamedTuple):
    """``title`` heads the names of the rows, which are at most ``label_width`` wide."""

    title: str
    label_width: int
    columns: Sequence[Column]
    notes: Sequence[Column]

    def head(self) -> str:
        return self._line(self.title, lambda column: column.head)

    def line(self, row: Row) -> str:
        return self._line(row.case.name, lambda column: column.cell(row))

    def _line(self, label: str, cell: Callable[[Column], str]) -> str:
        cells = "".join(f"{cell(column):>{column.width}s}" for column in self.columns)
        notes = "".join(f"  {cell(column):{column.width}s}" for column in self.notes)
        return f"{label:{self.label_width}s}{cells}{notes}".rstrip()

    def markdown(self, rows: Sequence[Row], caption: str, verdicts: Sequence[str]) -> str:
        """The caption, the table, and the verdicts as they are."""
        columns = [*self.columns, *self.notes]
        lines = [[row.case.name, *(column.cell(row) for column in columns)] for row in rows]
        table = markdown_table(["row", *(column.head for column in columns)], lines)
        return "\n".join([caption, "", *table, "", "```", *verdicts, "```"]) + "\n"


# -- columns ---------------------------------------------------------------------------------------------------


def ours() -> list[Column]:
    """Our time, and how far it spreads."""

    def spread(row: Row) -> str:
        figure = row.by_contender[OURS]
        return f"({in_time(figure.low)}-{in_time(figure.high)})"

    return [time_of("ours", OURS, 9), Column("(10-90 %)", 18, spread)]


def time_of(head: str, which: str | Callable[[Row], str | None], width: int = 0) -> Column:
    """The time of a contender, or of the one that a function names; a dash where there is none."""

    def cell(row: Row) -> str:
        name = which(row) if callable(which) else which
        return "-" if name not in row.by_contender else in_time(row.us(name))

    return Column(head, max(width, len(head) + 2, 9), cell)


def ratio(head: str, value: Callable[[Row], float | None]) -> Column:
    def cell(row: Row) -> str:
        found = value(row)
        return "-" if found is None else f"{found:.2f}"

    return Column(head, len(head) + 2, cell)


def which(width: int) -> Column:
    """Who is the fastest by hand."""
    return Column("which by hand", width, lambda row: row.best())


def remark(head: str, text: Callable[[Row], str] = lambda row: "") -> Column:
    """The last note, which also says whether other work disturbed the row."""
    return Column(head, 0, lambda row: (text(row) + " (far)" * row.far + " (disturbed)" * row.disturbed).strip())


# -- numbers in words ------------------------------------------------------------------------------------------


def in_time(us: float) -> str:
    """Three digits, in the unit that suits them.

    >>> in_time(9.994), in_time(45.67), in_time(999.6), in_time(1234567.0)
    ('9.99 us', '45.7 us', '1.00 ms', '1.23 s')
    """
    for factor, unit in ((1, "us"), (1e3, "ms")):
        if abs(us / factor) < 999.5:
            return _digits(us / factor, unit)
    return _digits(us / 1e6, "s")


def _digits(value: float, unit: str) -> str:
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def in_bytes(n: int) -> str:
    """
    >>> in_bytes(8), in_bytes(1 << 16), in_bytes(3 << 19)
    ('8 B', '64 KiB', '1.5 MiB')
    """
    for unit in ("B", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.4g} {unit}"
        n /= 1024
    return f"{n:.4g} GiB"
