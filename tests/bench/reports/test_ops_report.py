"""From the figures of operations to text, to JSON, and back; and the plot."""

import doctest
import importlib
import json

import pytest

from spmd_grid.bench.common.report import Outputs, read_again, write
from spmd_grid.bench.common.rows import LIMIT, NUMBA_MPI, OURS, Figure
from spmd_grid.bench.ops.cases import OpsCase
from spmd_grid.bench.ops.measure import SUBJECT
from spmd_grid.bench.ops.report import IN_LOOP, NEW, NUMPY, PLAN, PLAN_NUMPY, STARTED, RowFigures, summary, table

SMALL, LARGE = OpsCase("shift", 8), OpsCase("shift", 1 << 20)
GATHER = OpsCase("gather", 8)
SETTING = {"ranks": 2, "cores": 2, "processor": "some processor", "library": "some MPI", "rounds": 61}


def row(case, ours=4.0, plan=2.0, by_hand=3.0, disturbed=False):
    us = {OURS: ours, NEW: 5.0, NUMPY: 6.0, PLAN: plan, PLAN_NUMPY: 7.0, "Sendrecv": by_hand, "Isend/Irecv": 8.0}
    us |= {LIMIT: 0.5, STARTED: 1.9}
    figures = {
        name: Figure(value, 0.9 * value, 1.2 * value, value + 1, 3, (value, value))
        for name, value in us.items()
        if value is not None
    }
    return RowFigures(case, figures, {"rewriting": 1.0}, 61, disturbed=disturbed)


@pytest.mark.parametrize("module", ["common.rows", "common.session", "halo.cases", "reshard.cases"])
def test_examples(module):
    result = doctest.testmod(importlib.import_module(f"spmd_grid.bench.{module}"))
    assert result.attempted and not result.failed


def test_the_table():
    head, line = table().head(), table().line(row(SMALL))
    cells = {"ours": "4.00 us", "plan": "2.00 us", "copyto": "0.50 us", "best/ours": "0.75", "best/plan": "1.50"}
    for column, cell in cells.items():
        assert line[: head.index(f" {column}") + 1 + len(column)].endswith(f" {cell}")
    assert line.startswith("shift, 8 B ") and line.endswith("Sendrecv") and "(3.60 us-4.80 us)" in line
    assert table().line(row(SMALL, disturbed=True)).endswith(" (disturbed)")
    without = row(SMALL, plan=None)
    assert without.best_over_plan is None and table().line(without).split("us)")[1].split()[0] == "-"


def test_verdicts():
    text = summary([row(SMALL), row(LARGE, ours=1.0, plan=6.0)])
    assert text[:2] == [
        "Slower than the best hand-written variant in 1 of 2 rows:",
        "    shift, 8 B: 0.75x of Sendrecv",
    ]
    assert text[2].startswith("missed") and "1 of 2 rows; least 0.50x (shift, 1 MiB)" in text[2]
    assert "start and wait of a plan, 8 B: 1 of 1 rows; most 1.90 us (shift, 8 B)" in text[3] and len(text) == 5
    assert summary([row(SMALL, plan=None)])[2].startswith("not measured  a plan not slower")


def test_verdicts_on_compiled_loops():
    figures = row(OpsCase("all_reduce", 8))
    figures.by_contender |= {IN_LOOP: Figure(0.6, 0, 0, 0, 1), NUMBA_MPI: Figure(1.2, 0, 0, 0, 1)}
    goal, besides = summary([figures])[-2:]
    assert goal.startswith("missed") and goal.endswith("0 of 1 rows; most 0.60 us (all_reduce, 8 B)")
    assert besides == "all_reduce, 8 B in a compiled loop: our plan 0.6 us, numba-mpi 1.2 us"
    assert figures.best() == "Sendrecv"
    figures.hop_ns = 300.0  # far processors have no goal
    assert summary([figures])[-2].startswith("not measured")


def test_figures_are_told_again(tmp_path, capsys):
    rows = [row(SMALL), row(LARGE), row(GATHER)]
    figures, table_path = tmp_path / "figures.json", tmp_path / "table.md"
    write(SUBJECT, rows, SETTING, Outputs(str(figures)))
    written = json.loads(figures.read_text())
    assert written["processor"] == "some processor" and len(written["rows"]) == 3 and written["summary"]
    assert written["rows"][0]["contenders"][OURS]["quartiles"] == [4.0, 4.0]
    assert written["rows"][1]["best_peer_over_plan"] == 1.5
    assert read_again(SUBJECT, str(figures), "shift", Outputs(markdown=str(table_path))) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 ranks, 2 cores of some processor, some MPI"
    assert [table().line(each) in lines for each in rows] == [True, True, False]
    markdown = table_path.read_text()
    assert markdown.startswith("Time per call; 2 ranks, 2 cores of some processor, some MPI; medians over up to 61")
    assert "`python -m spmd_grid bench ops`" in markdown and markdown.count("\n| shift, ") == 2
    assert read_again(SUBJECT, str(figures), "walk", Outputs()) == 0


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_plot(tmp_path, suffix):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"plot.{suffix}"
    below_noise = row(OpsCase("shift", 1 << 10), ours=-0.1)
    write(SUBJECT, [row(LARGE), below_noise, row(SMALL), row(GATHER)], SETTING, Outputs(plot=str(path)))
    assert path.stat().st_size > 1000
    if suffix == "svg":
        text = path.read_text()
        shown = ["shift", "gather", OURS, PLAN, "Sendrecv", LIMIT, "bytes of each rank's array", "some processor"]
        assert all(f"<!-- {words}" in text or words in text for words in shown)
