"""The planning benchmark: how long one process takes to plan, on grids of 8 to 1,048,576 devices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from spmd_grid.bench.common.machine import machine
from spmd_grid.bench.plan.cases import PlanCase
from spmd_grid.bench.plan.report import rows_of, summary, table_head, table_row, to_markdown
from spmd_grid.bench.plan.times import measure_kind

__all__ = ["run_bench"]


def run_bench(cases: Sequence[PlanCase], rounds: int, json_path: str = "", markdown_path: str = "") -> None:
    """Measures and prints the rows of ``cases``.  Local."""
    setting = machine()
    place = f"one process on {setting['processor']}, Python {setting['python']}"
    _say(f"{place}; medians over {rounds} interleaved rounds, of the devices with the most messages")
    _say(
        "plan: layouts, geometry, own receives and sends; auto, totals: plan_reshard and plan.totals()\n", table_head()
    )
    rows = []
    for _, alike in groupby(cases, key=lambda case: case.kind):
        rows += (found := rows_of(measure_kind(list(alike), rounds)))
        _say(*map(table_row, found))
    lines = summary(rows)
    _say("", *lines)
    if json_path:
        figures = {**setting, "rows": [row.to_dict() for row in rows], "summary": lines}
        Path(json_path).write_text(json.dumps(figures, indent=1) + "\n")
    if markdown_path:
        caption = f"Planning by {place}; medians of `python -m spmd_grid bench plan`."
        Path(markdown_path).write_text(to_markdown(rows, caption))


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)
