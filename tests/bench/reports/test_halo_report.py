"""From figures to text: the cases, the table, and honest verdicts."""

import json

import pytest

from spmd_grid.bench.common.report import Outputs, write_files
from spmd_grid.bench.common.rows import OURS, Figure, matching_cases
from spmd_grid.bench.common.verdicts import slower_rows
from spmd_grid.bench.halo.cases import HaloCase, all_cases, quick_cases
from spmd_grid.bench.halo.report import (
    IN_LOOP,
    MESSAGE,
    RowFigures,
    summary,
    table,
)

PLAN = """halo of [[0]] on 3, halo [(1, 1)], global shape (192, 64)
  1 field of float64; local shape (66, 64); periodic along dimension 0
  rank 1 (1,) by memory, read in place: sends 512 B [64:65, 0:64], receives 512 B [65:66, 0:64]
  rank 2 (2,) by memory, read in place: sends 512 B [1:2, 0:64], receives 512 B [0:1, 0:64]
"""


def row(case, ours=0.5, loop=0.1, by_hand=3.0, persistent=2.0, disturbed=False, **more):
    us = {OURS: ours, IN_LOOP: loop, MESSAGE: 2.5, "Isend/Irecv, numpy pack": by_hand, **more}
    us["persistent, direct views"] = persistent
    figures = {name: Figure(value, 0.9 * value, 1.2 * value, value + 0.3, 100) for name, value in us.items()}
    return RowFigures(case, figures, {"rewriting": 0.3}, 61, PLAN, disturbed)


ROWS_64 = HaloCase(2, 64, 0, 1, 1)
ROWS_64_KIB = HaloCase(3, 64, 0, 1, 2)
COLUMNS_512 = HaloCase(2, 512, 1, 3, 2)
ONE_NEIGHBOUR = HaloCase(2, 64, 0, 1, 1, periodic=False)


def test_the_cases():
    cases = all_cases()
    assert len(cases) == 54 == len({case.name for case in cases})
    assert {(c.ndim, c.n) for c in cases} == {(2, 64), (2, 512), (2, 4096), (3, 32), (3, 64), (3, 128)}
    assert {(c.n_fields, c.width) for c in cases} == {(1, 1), (1, 2), (3, 1), (3, 2)}
    assert all(c.cut in (0, c.ndim - 1) for c in cases) and sum(c.is_rows for c in cases) == 30
    assert HaloCase(2, 512, 0, 1, 1).name == "2-d 512^2 rows, 1 field, width 1, face 4 KiB"
    assert HaloCase(3, 128, 2, 3, 2).name == "3-d 128^3 unit stride, 3 fields, width 2, face 256 KiB"
    assert HaloCase(3, 128, 2, 3, 2).global_shape(2) == (128, 128, 256)
    assert HaloCase(3, 128, 0, 3, 2).split_axes == [[0], [], []]
    ends = [case for case in cases if not case.periodic]
    assert [case.face_bytes for case in ends] == [512, 1024, 4096, 8192, 32768, 65536]
    assert ends[0].name == "2-d 64^2 rows, 1 field, width 1, face 512 B, not periodic"
    assert set(quick_cases()) < set(cases)


@pytest.mark.parametrize(
    ("pattern", "n"),
    [
        ("", 54),
        ("rows", 30),
        ("2-d 64^2", 10),
        ("2-d 64^2 rows*width 1", 3),
        ("face 64 KiB", 9),
        ("face 512 B", 5),
        ("x", 0),
    ],
)
def test_matching(pattern, n):
    assert len(matching_cases(all_cases(), pattern)) == n


def test_ratios():
    figures = row(ROWS_64)
    assert figures.best() == "persistent, direct views" == figures.best("persistent, ")
    assert figures.over_best == figures.over_persistent == 4
    figures = row(ROWS_64, by_hand=1.0, **{"persistent, numpy pack": 1.5, "Neighbor_alltoallw": 0.4})
    assert figures.best() == "Neighbor_alltoallw" and figures.best("persistent, ") == "persistent, numpy pack"
    assert figures.over_best == pytest.approx(0.8) and figures.over_persistent == 3
    assert row(ROWS_64, ours=-0.01).over_best == float("inf")  # less than the noise of rewriting


def test_slower_rows_are_named():
    rows = [row(ROWS_64), row(COLUMNS_512, ours=2.5), row(ROWS_64_KIB, ours=2.0)]
    assert slower_rows(rows) == [rows[1]]
    text = summary(rows)
    assert text[0] == "Slower than the best hand-written variant in 1 of 3 rows:"
    assert text[1] == f"    {COLUMNS_512.name}: 0.80x of persistent, direct views"
    assert summary(rows[:1])[0] == "Slower than the best hand-written variant in 0 of 1 rows."


def verdicts(*rows):
    return {line.split("  ", 1)[1].strip().split(":")[0]: line for line in summary(rows)[-7:]}


def test_goals_met():
    found = verdicts(row(ROWS_64), row(ROWS_64_KIB), row(COLUMNS_512), row(ONE_NEIGHBOUR))
    assert len(found) == 7 and all(line.startswith("met") for line in found.values())
    assert "2 of 2 rows; least 4.00x (2-d 64^2 rows" in found["2.5x persistent, row faces of 64^2 and 512^2"]
    assert "1 of 1 rows; least 4.00x" in found["2.5x persistent, one neighbour, faces up to 64 KiB"]
    assert "most 0.10 us" in found["0.3 us in-loop, 64^2 rows"]


def test_goals_missed_by_one_row():
    other = HaloCase(2, 512, 0, 3, 1)
    found = verdicts(row(ROWS_64), row(other, ours=0.81), row(ROWS_64_KIB, ours=0.51))
    line = found["2.5x persistent, row faces of 64^2 and 512^2"]
    assert line.startswith("missed") and f"1 of 2 rows; least 2.47x ({other.name})" in line
    assert found["4x persistent, row faces of 32 to 128 KiB"].startswith("missed")
    assert found["1 us from Python, 64^2 rows"].startswith("met")
    assert found["2x persistent, unit-stride faces"].startswith("not measured")
    slow = verdicts(row(ROWS_64, ours=1.01, loop=0.31))
    assert slow["1 us from Python, 64^2 rows"].startswith("missed")
    assert slow["0.3 us in-loop, 64^2 rows"].startswith("missed")


def test_other_work_is_reported():
    assert summary([row(ROWS_64, disturbed=True), row(COLUMNS_512)])[0].startswith("WARNING: other work")
    assert "1 of 2 rows" in summary([row(ROWS_64, disturbed=True), row(COLUMNS_512)])[0]
    assert table().line(row(ROWS_64, disturbed=True)).endswith(" (disturbed)")


def test_the_table():
    figures = row(ROWS_64)
    head, line = table().head(), table().line(figures)
    assert line.startswith(ROWS_64.name) and line.endswith("by memory, read in place")
    assert figures.way == "by memory, read in place" and " persistent, direct views " in line
    assert head.index("best/ours") + len("best/ours") == line.index(" 4.00 ") + len(" 4.00")
    assert "(0.45 us-0.60 us)" in line and head.index("our way") == line.index("by memory")
    del figures.by_contender[IN_LOOP]
    assert "  -  " in table().line(figures)
    longest = max(all_cases(), key=lambda case: len(case.name))
    wide = row(longest, ours=12345.6, by_hand=23456.7, persistent=34567.8)
    assert "  (11.1 ms-14.8 ms) " in table().line(wide)


def test_markdown_and_json(tmp_path):
    rows = [row(ROWS_64), row(COLUMNS_512)]
    files = Outputs(str(tmp_path / "rows.json"), str(tmp_path / "rows.md"))
    write_files(files, {"ranks": 2}, "A caption.", table(), rows, summary(rows), {"overlap": []}, ["Overlap"])
    text = (tmp_path / "rows.md").read_text().splitlines()
    lines = [line for line in text if line.startswith("|")]
    assert text[0] == "A caption." and len(lines) == 4 and len({line.count("|") for line in lines}) == 1
    assert "Overlap" in text and summary(rows)[0] in text
    written = json.loads((tmp_path / "rows.json").read_text())
    again = written["rows"]
    assert written["ranks"] == 2 and written["overlap"] == [] and written["summary"] == summary(rows)
    assert again[0]["row"] == ROWS_64.name and again[0]["contenders"][OURS]["raw"] == 0.8
    assert again[0]["best_peer_over_ours"] == 4 and again[1]["cut"] == 1
