"""The benchmark of watching: modes that do what they are called, honest verdicts, and one row in full."""

import json
import sys
from contextlib import ExitStack

import numpy as np
import pytest
from support.jobs import clean_environment, needs_mpiexec
from support.patience import run_in_time

import spmd_grid as sg
from spmd_grid.bench.common.rows import Figure
from spmd_grid.bench.watch.cases import all_cases, quick_cases
from spmd_grid.bench.watch.gate import GateRow, gate_cases, gate_table
from spmd_grid.bench.watch.modes import (
    CHECKED,
    LOOK,
    LOOP,
    PLAIN,
    RECORDED,
    Modes,
    look_batches,
)
from spmd_grid.bench.watch.report import WatchRow, summary, table
from spmd_grid.transport.launch import current_world

CASE, OTHER = all_cases()[:2]


def row(case=CASE, plain=4.0, recorded=10.0, checked=12.5, look=0.01, looks=5, disturbed=False):
    us = {PLAIN: plain, RECORDED: recorded, CHECKED: checked, LOOK: look}
    figures = {name: Figure(value, 0.9 * value, 1.1 * value, value, 3, (value, value)) for name, value in us.items()}
    return WatchRow(case, figures, looks, 61, disturbed)


# -- the report ------------------------------------------------------------------------------------------------


def test_the_table():
    head, line = table().head(), table().line(row())
    cells = {"plain": "4.00 us", "recorded": "10.0 us", "checked": "12.5 us", "difference": "8.50 us"}
    for column, cell in cells.items():
        assert line[: head.index(column) + len(column)].endswith(f" {cell}")
    assert line.startswith("all_reduce, 8 B ") and line.endswith(" 50 ns (5 looks)")
    assert table().line(row(looks=1, disturbed=True)).endswith(" 10 ns (1 look)  (disturbed)")


def test_verdicts():
    met, missed = summary([row(), row(OTHER)]), summary([row(), row(OTHER, checked=19.1, look=0.02, disturbed=True)])
    assert [line.split()[0] for line in met] == ["met", "met"]
    assert "at most 15 us: 2 of 2 rows; most 8.50 us (all_reduce, 8 B)" in met[0]
    assert missed[0].startswith("WARNING: other work on the machine disturbed 1 of 2 rows")
    assert [line.split()[0] for line in missed[1:]] == ["missed", "missed"]
    assert missed[1].endswith("1 of 2 rows; most 15.10 us (broadcast, 8 B)")
    assert missed[2].endswith("1 of 2 rows; most 100.00 ns (broadcast, 8 B)")


def test_figures_are_read_again():
    written = json.loads(json.dumps(row().to_dict()))
    assert written["added_us"] == 8.5 and written["off_ns"] == pytest.approx(50)
    again = WatchRow.from_dict(written)
    assert again.case == CASE and table().line(again) == table().line(row())
    assert json.loads(json.dumps(again.to_dict())) == written


def test_the_cases():
    names = [case.name for case in all_cases()]
    assert len(set(names)) == len(names) and set(quick_cases()) < set(all_cases())


# -- the modes -------------------------------------------------------------------------------------------------


def on_ranks(body, ranks=2):
    """The results of ``body(grid, modes)`` on each of some simulated ranks."""
    return sg.run_spmd(lambda: body(sg.init_grid((-1,)), Modes()), ranks=ranks)


def test_modes_switch_what_is_recorded():
    def body(grid, modes):
        recorder = modes._recorder
        call = lambda: sg.all_reduce(1.0, grid, [0], "sum")  # noqa: E731
        found = []
        for mode in (PLAIN, RECORDED, CHECKED, PLAIN):
            before = recorder.number
            modes.batch(mode, call)(3)
            found.append(recorder.number - before)
            with modes.within(mode):
                found.append(grid.recorder is not None and grid.recorder.check)
            assert grid.recorder is None
        return found

    assert on_ranks(body) == [[0, False, 3, False, 3, True, 0, False]] * 2


def test_looks_are_counted():
    def body(grid, modes):
        process = current_world().process
        found = (
            modes.looks(lambda: None),
            modes.looks(lambda: process.recorder),
            modes.looks(lambda: (grid.recorder, process.recorder, grid.recorder)),
            modes.looks(lambda: sg.all_reduce(1.0, grid, [0], "sum")),
        )
        assert type(process).__name__ == "Process"
        return found

    assert on_ranks(body) == [(0, 1, 3, 1)] * 2


def test_batches_of_looks_find_nobody():
    def body(grid, modes):
        batches = look_batches()
        for batch in batches.values():
            batch(3)
        return set(batches)

    assert on_ranks(body) == [{LOOP, LOOK}] * 2


# -- the gate --------------------------------------------------------------------------------------------------


def test_operations_without_the_gate_give_the_same():
    def body(grid):
        found, idle = {}, grid.process.gate.idle
        with ExitStack() as stack:
            for name, calls in gate_cases(grid, stack).items():
                passes = []
                for call in calls:
                    grid.process.gate.idle = counted = Counted(idle)
                    result = call()
                    grid.process.gate.idle = idle
                    passes.append((counted.pops, np.array(result).tolist()))
                found[name] = passes
        return found

    for (gated, result), (ungated, same) in sg.run_spmd(lambda: body(sg.init_grid((1,))), ranks=1)[0].values():
        assert (gated, ungated) == (1, 0) and result == same


class Counted(list):
    pops = 0

    def pop(self):
        self.pops += 1
        return super().pop()


def test_the_table_of_the_gate():
    line = gate_table().line(GateRow(OTHER, 2.1, 2.0))
    assert line.split()[-8:] == ["2.10", "us", "2.00", "us", "100", "ns", "5.0", "%"]


@needs_mpiexec
@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.full), 3])  # alone, and a pair with one left over
def test_all_rows_on_mpi(ranks, tmp_path):
    figures, markdown = tmp_path / "figures.json", tmp_path / "table.md"
    words = ["bench", "watch", f"-n{ranks}", "--rounds=1", f"--json={figures}", f"--markdown={markdown}"]
    done = run_in_time(
        [sys.executable, "-W", "error", "-m", "spmd_grid", *words],
        env=clean_environment(),
        cwd=tmp_path,
        limit=240,
    )
    assert done.returncode == 0, done
    written = json.loads(figures.read_text())
    assert written["ranks"] == ranks and written["processor"] and written["rounds"] == 1
    assert {line.split()[0] for line in written["summary"]} & {"met", "missed"}
    looks = {row["row"]: row["looks"] for row in written["rows"]}
    assert list(looks) == [case.name for case in all_cases()]
    assert looks["all_reduce, 8 B"] >= 1
    assert looks["HaloExchange.update, 64^2 blocks"] == 0 or ranks > 1  # who has to wait looks meanwhile
    gate = written["gate"]
    assert len(gate) == 3 and all(0 < each["without_us"] < 1e4 and 0 < each["with_us"] < 1e4 for each in gate)
    text = markdown.read_text()
    assert "`python -m spmd_grid bench watch`" in text and "\n| broadcast, 8 B | " in text
    assert "checking adds at most 15 us" in done.stdout
