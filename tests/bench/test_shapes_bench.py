"""The shapes benchmark: every operation runs on thin arrays, and rows that break the limit are named."""

import json

import numpy as np
from support.jobs import needs_mpiexec

import spmd_grid as sg
from spmd_grid.bench.shapes.cases import OPERATIONS, ShapesCase, all_cases, quick_cases
from spmd_grid.bench.shapes.measure import parts_of
from spmd_grid.bench.shapes.report import ShapesRow, summary
from spmd_grid.cli.main import main


def test_every_operation_runs(tmp_path):
    def body():
        grid = sg.init_grid((2,))
        for shape, dim in (((96,), 0), ((3, 64), 0), ((64, 3), 1)):
            for name, operation in OPERATIONS.items():
                parts = parts_of(ShapesCase(name, shape, dim), shape, grid, tmp_path)
                operation.run(parts)
                if operation.numpy is not None:
                    operation.numpy(np.ones(parts.a.core.shape), parts)
        return True

    assert all(sg.run_spmd(body, ranks=2))


def test_cases():
    for cases in (all_cases(), quick_cases()):
        sizes = [np.prod(case.shape) for case in cases]
        assert max(sizes) == min(sizes) and len({case.name for case in cases}) == len(cases)
    assert {case.operation for case in all_cases()} == set(OPERATIONS)


def test_the_limit():
    def row(first, later):
        return ShapesRow(ShapesCase("slice", (4, 2), 0), first, later, 100.0, 0.0, 0.25)

    first, later = summary([row(30_400, 449), row(500, 1)])
    assert first.startswith("met ") and later.startswith("met ")
    first, later = summary([row(31_000, 451), row(500, 1)])
    assert "missed" in first and "1 of 2 rows; most 30.55 ms (slice, 4x2 cut along 0)" in first
    assert "missed" in later and "1 of 2 rows; most 2.01x (slice, 4x2 cut along 0)" in later


@needs_mpiexec
def test_one_row(capfd, tmp_path):
    figures = tmp_path / "figures.json"
    assert main(["bench", "shapes", "--rounds=1", "--rows=slice, 786432 cut", f"--json={figures}"]) == 0
    assert "2x of numpy or a copy later: " in capfd.readouterr().out
    rows = json.loads(figures.read_text())["rows"]
    assert [each["row"] for each in rows] == ["slice, 786432 cut along 0", "last slice, 786432 cut along 0"]
    assert all(each["first"] > 0 and each["later"] > 0 and each["copy"] > 0 for each in rows)
