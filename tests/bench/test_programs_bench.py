"""The benchmark of programs: right contenders, honest verdicts, and rows in full."""

import json
import sys

import numpy as np
import pytest
from support.jobs import clean_environment, needs_mpiexec
from support.patience import run_in_time
from test_arrays_bench import Together

import spmd_grid as sg
from spmd_grid.bench.common.blas import share_cores_of_blas
from spmd_grid.bench.common.machine import usable_cores
from spmd_grid.bench.common.rows import OURS, Figure
from spmd_grid.bench.programs import cases, measure
from spmd_grid.bench.programs.cases import OPERATIONS, PLANNING, PROGRAMS, ProgramsCase, all_cases, quick_cases
from spmd_grid.bench.programs.libraries import in_namespace, is_right
from spmd_grid.bench.programs.report import BY_HAND, RowFigures, summary, table
from spmd_grid.cli.main import main
from spmd_grid.grid.device_grid import Grid

MLP, LARGE = ProgramsCase("mlp"), ProgramsCase("mlp", "large")


def row(case=MLP, ours=10.0, by_hand=11.0, jax=30.0, disturbed=False):
    us = {OURS: ours, BY_HAND: by_hand, "JAX jit, own process": jax}
    if case.program == PLANNING:
        us = {OURS: ours}
    elif case.program == OPERATIONS:
        us.pop("JAX jit, own process")
    figures = {name: Figure(value, 0.9 * value, 1.1 * value, value, 3) for name, value in us.items()}
    return RowFigures(case, figures, {}, 61, disturbed=disturbed, skipped={"DTensor": "torch is not installed"})


# -- the contenders --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("program", "ranks"), list(zip(PROGRAMS, (1, 3, 2, 4, 3))))
def test_traced_and_by_hand_are_right(program, ranks):
    def body():
        grid = sg.init_grid(cases.grid_shape(program, ranks))
        line = sg.init_grid((-1,))
        measure.check_program(ProgramsCase(program), grid, Together(line))

    sg.run_spmd(body, ranks=ranks)


class Ranks:
    def __init__(self, n):
        self.n = n

    def allgather(self, value):
        return [value] * self.n


def test_products_have_a_part_of_the_cores():
    """OpenBLAS alone can be told; others keep what their variables say."""
    cores = len(usable_cores())
    assert share_cores_of_blas(Ranks(2)) in (max(1, cores // 2), 0)
    assert share_cores_of_blas(Ranks(1)) in (cores, 0)  # as before, for other tests


def test_a_wrong_result_is_noticed(monkeypatch):
    right = cases.problem_of

    def wrong(case, grid):
        return right(case, grid)._replace(by_hand=lambda grid, *local: lambda: np.zeros((64, 128), "f4"))

    monkeypatch.setattr(measure, "problem_of", wrong)

    def body():
        grid = sg.init_grid((-1,))
        measure.check_program(MLP, grid, Together(grid))

    with pytest.raises(RuntimeError, match="by hand gives a wrong result in 'mlp, small': wrong cells"):
        sg.run_spmd(body, ranks=2)


def test_there_are_50_operations():
    program = measure.plan_operations(Grid((2,)), Grid((2,))).program
    names = [operation.name for operation in program.operations]
    assert len(names) == cases.N_OPERATIONS and names.count("max") == 10


def test_functions_take_the_namespace_of_another_library():
    class Library:
        @staticmethod
        def maximum(a, b):
            return "its own maximum" if isinstance(a, str) else np.maximum(a, b)

    function = in_namespace(lambda x: np.maximum(x, 0), Library)
    assert function("a") == "its own maximum" and function(-1) == 0
    with pytest.raises(TypeError, match="is not a plain function"):
        in_namespace(np.add, Library)
    assert is_right([1.0, 2.0], np.array([1.0, 2.0])) and not is_right([1.0], np.array([1.0, 2.0]))
    assert not is_right([1.0, 2.1], np.array([1.0, 2.0]))


# -- the report ------------------------------------------------------------------------------------------------


def test_rows():
    names = [case.name for case in all_cases()]
    assert len(set(names)) == len(names) == 13 and names[0] == "mlp, small"
    assert "planning 50 operations, 1024x1024 devices" in names
    assert [case.name for case in quick_cases()] == [name for name in names if not name.endswith("large")]


def test_a_row_of_the_table():
    printed = table(["JAX"])
    head, line = printed.head(), printed.line(row())
    for column, cell in {"ours": "10.0 us", "by hand": "11.0 us", "JAX": "30.0 us", "by hand/ours": "1.10x"}.items():
        assert line[: head.index(column) + len(column)].endswith(f" {cell}")
    assert line.endswith("at least 0.95x by hand: met")
    assert "+2.00 us per operation, at most 1.5: missed" in printed.line(row(ProgramsCase(OPERATIONS), 200.0, 100.0))
    planning = printed.line(row(ProgramsCase(PLANNING, devices=(2,)), 250_000.0))
    assert "250 ms" in planning and planning.endswith("at most 200 ms: missed")


def test_verdicts():
    operations, planning = ProgramsCase(OPERATIONS), ProgramsCase(PLANNING, devices=(8,))
    rows = [row(), row(LARGE, 20.0, jax=15.0, disturbed=True), row(operations, 150.0, 100.0), row(planning, 1000.0)]
    lines = summary(rows)
    assert lines[0].startswith("WARNING: other work on the machine disturbed 1 of 4 rows")
    verdicts = {line.split("  ", 1)[1].strip().split(":")[0]: line.split()[0] for line in lines[3:]}
    assert verdicts == {
        "as fast as by hand": "missed",
        "longer than by hand, per operation": "met",
        "planning": "met",
        "faster than every other library": "missed",
    }


def test_figures_are_read_again():
    for each in (row(), row(ProgramsCase(OPERATIONS)), row(ProgramsCase(PLANNING, devices=(1024, 1024)))):
        written = json.loads(json.dumps(each.to_dict()))
        again = RowFigures.from_dict(ProgramsCase, written)
        assert again.case == each.case and json.loads(json.dumps(again.to_dict())) == written


# -- the command -----------------------------------------------------------------------------------------------


def test_without_the_source_tree(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(cases, "EXAMPLES", tmp_path / "programs")
    assert main(["bench", "programs"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("spmd_grid bench: the programs are not there") and "run it from a clone" in err


@needs_mpiexec
def test_rows_on_mpi(tmp_path):
    figures, markdown = tmp_path / "figures.json", tmp_path / "table.md"
    words = ["bench", "programs", "-n2", "--quick", "--rounds=1", "--rows=m*small", f"--json={figures}"]
    words += [f"--markdown={markdown}", "--peers=none"]
    done = run_in_time(
        [sys.executable, "-W", "error", "-m", "spmd_grid", *words], env=clean_environment(), cwd=tmp_path, limit=240
    )
    assert done.returncode == 0, done
    written = json.loads(figures.read_text())
    assert written["ranks"] == 2 and {each["program"] for each in written["rows"]} == {"mlp", "kmeans"}
    assert all({OURS, BY_HAND} <= each["contenders"].keys() for each in written["rows"])
    assert "`python -m spmd_grid bench programs`" in markdown.read_text()
    assert "as fast as by hand" in done.stdout
