"""The files that a benchmark writes: JSON, Markdown and a plot; and the same again from its JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from spmd_grid.bench.common.plot import draw
from spmd_grid.bench.common.rows import LIBRARIES, Row, matching_cases
from spmd_grid.bench.common.session import setting_text
from spmd_grid.bench.common.table import Table, TableRow

__all__ = ["Outputs", "Subject", "one_process", "read_again", "say", "write", "write_files"]


class Outputs(NamedTuple):
    """Paths of the files to write; an empty path is skipped."""

    json: str = ""
    markdown: str = ""
    plot: str = ""


class WrittenRow(TableRow, Protocol):
    """A row that can be written to JSON."""

    def to_dict(self) -> dict[str, Any]: ...


AnyWritten = TypeVar("AnyWritten", bound=WrittenRow)


def say(*lines: str) -> None:
    """Print the lines at once.  Local."""
    print(*lines, sep="\n", flush=True)


def one_process(setting: Mapping[str, Any]) -> str:
    """Processor and version of Python in one line, for benchmarks of one process."""
    return f"one process on {setting['processor']}, Python {setting['python']}"


def write_files(
    outputs: Outputs,
    setting: Mapping[str, Any],
    caption: str,
    table: Table[AnyWritten],
    rows: Sequence[AnyWritten],
    summary: Sequence[str],
    more: Mapping[str, Any] | None = None,
    more_lines: Sequence[str] = (),
) -> None:
    """Write the rows to the JSON and Markdown files of ``outputs``.  Local.

    JSON also holds ``setting`` and ``more``, Markdown also ``caption`` and ``more_lines``.
    """
    if outputs.json:
        figures = {**setting, "rows": [row.to_dict() for row in rows], "summary": list(summary), **(more or {})}
        Path(outputs.json).write_text(json.dumps(figures, indent=1) + "\n")
    if outputs.markdown:
        lines = [caption, "", *table.markdown(rows)]
        for block in filter(None, (summary, more_lines)):
            lines += ["", "```", *block, "```"]
        Path(outputs.markdown).write_text("\n".join(lines) + "\n")


# -- benchmarks whose rows can be read again -------------------------------------------------------------------


class Subject(NamedTuple):
    """A benchmark whose JSON can be read again, by its ``kind`` on the command line.

    ``title``: what its times are; ``sizes``: what the ``n_bytes`` of its cases count; ``table``: makes a table with
    columns for the given libraries.
    """

    kind: str
    title: str
    sizes: str
    case_type: type
    row_type: type[Row[Any]]
    table: Callable[[Sequence[str]], Table[Any]]
    summary: Callable[[Sequence[Any]], list[str]]

    def table_of(self, rows: Sequence[Row[Any]]) -> Table[Any]:
        """The table with columns for the libraries that took part in ``rows``."""
        return self.table([name for name in LIBRARIES if any(row.best_of(name) for row in rows)])


def write(subject: Subject, rows: Sequence[Row[Any]], setting: Mapping[str, Any], outputs: Outputs) -> None:
    """Write the rows to all files of ``outputs``.  Local.  ``setting``: the machine, and "rounds"."""
    caption = (
        f"{subject.title}; {setting_text(setting)}; medians over up to {setting['rounds']} interleaved rounds of"
        f" `python -m spmd_grid bench {subject.kind}`."
    )
    write_files(outputs, setting, caption, subject.table_of(rows), rows, subject.summary(rows))
    if outputs.plot:
        draw(rows, outputs.plot, caption, subject.sizes)


def read_again(subject: Subject, path: str, pattern: str, outputs: Outputs) -> int:
    """Print and write the rows in a JSON file whose names contain ``pattern``; returns their number.  Local."""
    setting = json.loads(Path(path).read_text())
    rows = [subject.row_type.from_dict(subject.case_type, figures) for figures in setting.pop("rows")]
    rows = [row for row in rows if matching_cases([row.case], pattern)]
    if rows:
        table = subject.table_of(rows)
        say(setting_text(setting), "", table.head(), *map(table.line, rows), "", *subject.summary(rows))
        write(subject, rows, {"rounds": max(row.rounds for row in rows), **setting}, outputs)
    return len(rows)
