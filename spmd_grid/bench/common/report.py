"""What a benchmark of rows says and writes: a table, verdicts, JSON, Markdown and a plot; also from JSON, later."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from spmd_grid.bench.common.plot import draw
from spmd_grid.bench.common.rows import LIBRARIES, Row, matching_cases
from spmd_grid.bench.common.session import place_of
from spmd_grid.bench.common.table import Table

__all__ = ["Outputs", "Subject", "read_again", "write"]


class Outputs(NamedTuple):
    """Paths to write to; nothing is written where one is empty."""

    json: str = ""
    markdown: str = ""
    plot: str = ""


class Subject(NamedTuple):
    """A benchmark: its ``kind`` on the command line, and how its rows are told.

    ``title``: what its times are; ``sizes``: of what its cases give the ``n_bytes``; ``table``: the one with columns
    for these libraries.
    """

    kind: str
    title: str
    sizes: str
    case_type: type
    row_type: type[Row]
    table: Callable[[Sequence[str]], Table]
    summary: Callable[[Sequence[Row]], list[str]]


def write(subject: Subject, rows: Sequence[Row], setting: Mapping, outputs: Outputs) -> None:
    """``setting``: what it ran on, and "rounds"; JSON holds all of it.  Local."""
    if outputs.json:
        figures = {**setting, "rows": [row.to_dict() for row in rows], "summary": subject.summary(rows)}
        Path(outputs.json).write_text(json.dumps(figures, indent=1) + "\n")
    caption = (
        f"{subject.title}; {place_of(setting)}; medians over up to {setting['rounds']} interleaved rounds of"
        f" `python -m spmd_grid bench {subject.kind}`."
    )
    if outputs.markdown:
        libraries = [name for name in LIBRARIES if any(row.best_of(name) for row in rows)]
        Path(outputs.markdown).write_text(subject.table(libraries).markdown(rows, caption, subject.summary(rows)))
    if outputs.plot:
        draw(rows, outputs.plot, caption, subject.sizes)


def read_again(subject: Subject, path: str, pattern: str, outputs: Outputs) -> int:
    """Prints and writes the rows of a file of `write` whose names contain ``pattern``; how many there are.  Local."""
    setting = json.loads(Path(path).read_text())
    rows = [subject.row_type.from_dict(subject.case_type, figures) for figures in setting.pop("rows")]
    rows = [row for row in rows if matching_cases([row.case], pattern)]
    if rows:
        table = subject.table([name for name in LIBRARIES if any(row.best_of(name) for row in rows)])
        print(place_of(setting), "", table.head(), *map(table.line, rows), "", *subject.summary(rows), sep="\n")
        write(subject, rows, {"rounds": max(row.rounds for row in rows), **setting}, outputs)
    return len(rows)
