"""The planning benchmark: kinds with as many partners on every grid, and honest verdicts."""

import json
from collections import defaultdict

import pytest

from spmd_grid.bench.common.report import Outputs, write_files
from spmd_grid.bench.common.rows import matching_cases
from spmd_grid.bench.plan.cases import DEVICES, MILLION, PlanCase, all_cases, quick_cases
from spmd_grid.bench.plan.measure import Planner, measure_kind
from spmd_grid.bench.plan.report import PlanTimes, rows_of, summary, table

SWAP = PlanCase("swap", (2, 4), (64, 128), ((0,), (1,)), ((1,), (0,)))
LARGE = PlanCase("swap", (1024, 1024), (65536, 65536), ((0,), (1,)), ((1,), (0,)))
MANY = PlanCase("1,500 partners, drop", (1024, 1024), (525312, 32), ((0, 1),), ((1,),))


def times(case, us, messages=(1, 1, 1), auto=1e-3, totals=1e-4):
    return PlanTimes(case, *messages, [factor * us * 1e-6 for factor in (0.9, 1.0, 1.1)], [3e-5], [auto], [totals])


def test_the_cases():
    cases = all_cases()
    assert len({case.name for case in cases}) == len(cases)
    by_kind = defaultdict(list)
    for case in cases:
        by_kind[case.kind].append(case.devices)
    assert DEVICES[0] == 8 and DEVICES[-1] == MILLION == 1_048_576
    assert {"swap", "reorder", "move", "slice", "replace", "rotation of three axes"} < set(by_kind)
    assert all(tuple(devices) in (DEVICES, (MILLION,)) for devices in by_kind.values())
    assert set(quick_cases()) < set(cases)


def test_as_many_partners_on_every_grid():
    """The busiest of a sample: on the smallest grid some kinds cannot have as many partners."""
    by_kind = defaultdict(set)
    for case in all_cases():
        if case.devices in (64, 4096, 262144):
            found = Planner(case).times
            by_kind[case.kind].add((found.receives, found.sends))
    assert by_kind == {
        "swap": {(1, 1)},
        "reorder": {(1, 1)},
        "move": {(3, 3)},
        "move of copies": {(3, 3)},
        "drop of a major axis": {(4, 4)},
        "slice": {(0, 0)},
        "replace": {(1, 1)},
        "rotation of three axes": {(1, 1)},
    }


def test_very_many_partners():
    (case,) = matching_cases(all_cases(), "1,500")
    found = Planner(case).times
    assert (found.receives, found.sends) == (513, 1024) and found.partners >= 1500
    assert case.devices == MILLION


def test_measuring():
    first, second = measure_kind(matching_cases(all_cases(), "slice, ")[:2], 2)
    assert len(first.seconds) == len(first.shardings) >= 2 <= len(second.seconds)
    assert all(0 < each < 1 for row in (first, second) for each in (*row.seconds, *row.auto, *row.totals))
    assert len(first.auto) == len(first.totals) == 5


def test_verdicts():
    rows = rows_of([times(SWAP, 90), times(LARGE, 99), times(MANY, 9000, (513, 1024, 1536))])
    assert rows[1].growth == pytest.approx(1.1) and rows[0].growth is None is rows[2].growth
    found = summary(rows)
    assert all(line.startswith("met") for line in found), found
    assert "2 of 2 rows; most 99.00 us (swap, 1024x1024)" in found[0] and "most 9.00 ms" in found[1]
    missed = summary(rows_of([times(SWAP, 50), times(LARGE, 101, auto=1.1), times(MANY, 11000, (513, 1024, 1536))]))
    assert all(line.startswith("missed") for line in missed), missed
    other = PlanCase("swap", (2, 2, 2), (64, 64, 64), ((0,), (1,), (2,)), ((1,), (0,), (2,)))
    assert rows_of([times(other, 50), times(LARGE, 90)])[1].growth is None  # another number of axes to look at
    assert summary(rows[:1])[1].startswith("not measured")


def test_the_table():
    (row,) = rows_of([times(MANY, 9000, (513, 1024, 1536))])
    head, line = table().head(), table().line(row)
    assert line.startswith("1,500 partners, drop, 1024x1024 ") and " 1,048,576 " in line and "(8.28 ms-9.72 ms)" in line
    for column, cell in {"sends": "1,024", "per partner": "5.86 us", "auto": "1.00 ms", "totals": "100 us"}.items():
        end = head.index(f" {column}") + 1 + len(column)
        assert line[end - len(cell) : end] == cell
    (alone,) = rows_of([times(SWAP, 50, (0, 0, 0))])
    assert alone.per_partner is None and "  -  " in table().line(alone)
    longest = max(len(case.name) for case in all_cases())
    assert all(len(table().line(each).split()) >= 10 for each in (row, alone)) and longest < head.index("devices")


def test_markdown_and_json(tmp_path):
    rows = rows_of([times(SWAP, 90), times(LARGE, 99)])
    files = Outputs(str(tmp_path / "rows.json"), str(tmp_path / "rows.md"))
    write_files(files, {}, "A caption.", table(), rows, summary(rows))
    text = (tmp_path / "rows.md").read_text().splitlines()
    lines = [line for line in text if line.startswith("|")]
    assert text[0] == "A caption." and len(lines) == 4 and len({line.count("|") for line in lines}) == 1
    again = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert again[1]["devices"] == MILLION and again[1]["growth"] == pytest.approx(1.1)
    assert again[0]["us_per_partner"] == pytest.approx(90) and again[0]["us_per_message"] == pytest.approx(45)
