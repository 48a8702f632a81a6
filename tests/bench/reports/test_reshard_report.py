"""From the figures of reshardings to text: the cases, the table, and honest verdicts."""

import json

import pytest

from spmd_grid.bench.common.report import Outputs, write_files
from spmd_grid.bench.common.rows import LIMIT, OURS, RESHARD_LIBRARIES, Figure, matching_cases
from spmd_grid.bench.common.verdicts import slower_rows
from spmd_grid.bench.reshard.cases import ReshardCase, all_cases, quick_cases
from spmd_grid.bench.reshard.peers import ALLTOALLW
from spmd_grid.bench.reshard.report import BOUND, MESSAGE, NEW, NUMPY, RowFigures, summary, table
from spmd_grid.grid.device_grid import Grid

ROWS = ReshardCase((512, 512), 0, 1)
BACK = ReshardCase((512, 512), 1, 0)
CUBE = ReshardCase((32, 32, 32), 0, 2)


HEAT = "heat resplit"


def row(case, ours=200.0, message=500.0, alltoallw=900.0, disturbed=False, **more):
    us = {OURS: ours, BOUND: 150.0, NEW: 220.0, NUMPY: 400.0, MESSAGE: message, ALLTOALLW: alltoallw, **more}
    us |= {"numpy pack, Alltoallv": 600.0, LIMIT: 50.0}
    figures = {name: Figure(value, 0.9 * value, 1.2 * value, value + 10, 3) for name, value in us.items()}
    return RowFigures(case, figures, {"rewriting": 10.0}, 61, "direct", disturbed)


def table_head(libraries=()):
    return table(libraries).head()


def table_row(figures, libraries=()):
    return table(libraries).line(figures)


def test_the_cases():
    cases = all_cases()
    assert len(cases) == 34 == len({case.name for case in cases})
    assert [case.name for case in cases[:2]] == ["2-d 64^2 rows to columns", "2-d 64^2 columns to rows"]
    known = {f"2-d {n}^2 rows to columns" for n in (1024, 4096, 8192)} | {"2-d 1023x4097 rows to columns"}
    known |= {f"3-d {n}^3 {cuts}" for n in (256, 512) for cuts in ("0 to 1", "0 to 2", "1 to 2")}
    assert known <= {case.name for case in cases}
    assert sum(case.is_first_to_last for case in cases) == 13
    assert {case.family for case in cases if len(case.shape) == 2} == {"2-d rows to columns", "2-d columns to rows"}
    assert ROWS.n_bytes == 2 << 20 and CUBE.family == "3-d 0 to 2"
    assert set(quick_cases()) < set(cases)
    assert len(matching_cases(cases, "0 to 2")) == 4 and len(matching_cases(cases, "2-d*rows to")) == 9


def test_layouts():
    before, after = ReshardCase((5, 7, 9), 0, 2).layouts(Grid((2,)))
    assert before.local_shape((1,)) == (2, 7, 9) and after.local_shape((1,)) == (5, 7, 4)


def test_ratios():
    figures = row(ROWS)
    assert figures.best() == "numpy pack, Alltoallv"  # neither ours nor the limit
    assert figures.over_best == 3 and figures.over_limit == 4
    assert figures.alltoallw_over_message == pytest.approx(1.8)
    assert figures.bound_over_best == 4
    assert row(ROWS, ours=-1.0).over_best == float("inf")


def verdict(*rows):
    return summary(rows)[-1]


def test_verdicts():
    rows = [row(ROWS), row(BACK, ours=700.0), row(CUBE)]
    assert slower_rows(rows) == rows[1:2]
    text = summary(rows)
    assert text[:2] == [
        "Slower than the best hand-written variant in 1 of 3 rows:",
        f"    {BACK.name}: 0.86x of {rows[1].best()}",
    ]
    assert text[-1].startswith("met") and "2 of 2 rows; least 1.80x" in text[-1]
    assert verdict(row(ROWS), row(CUBE, message=901.0)).startswith("missed")
    assert "1 of 2 rows" in verdict(row(ROWS), row(CUBE, message=901.0))
    assert verdict(row(BACK, message=901.0)).startswith("not measured")
    assert summary([row(CUBE)])[-2].startswith("met") and "1 of 1 rows; least 4.00x" in summary([row(CUBE)])[-2]
    assert summary([row(ROWS)])[-2].startswith("not measured")
    assert summary([row(ROWS, disturbed=True)])[0].startswith("WARNING: other work on the machine disturbed 1 of 1")


def test_the_table():
    head, line = table_head(), table_row(row(ROWS))
    assert line.startswith(ROWS.name) and line.endswith("direct") and " numpy pack, Alltoallv " in line
    assert head.index("best/ours") + len("best/ours") == line.index(" 3.00") + len(" 3.00")
    assert "(180 us-240 us)" in line and head.index("plan") == line.index("direct")
    assert table_row(row(ROWS, disturbed=True)).endswith(" (disturbed)")
    cells = table_row(row(ROWS, ours=8.123, message=12345.6, alltoallw=45.67))
    assert "8.12 us" in cells and "12.3 ms" in cells and "45.7 us" in cells
    wide = row(max(all_cases(), key=lambda case: len(case.name)), ours=123456.7)
    assert "(111 ms-148 ms)" in table_row(wide)


@pytest.mark.parametrize(
    ("us", "text"), [(9.994, "9.99 us"), (9.996, "10.0 us"), (99.96, "100 us"), (999.4, "999 us"), (999.6, "1.00 ms")]
)
def test_three_digits(us, text):
    assert f" {text} " in table_row(row(ROWS, message=us))


def test_other_libraries():
    """They have columns of their own, and are neither ours nor by hand."""
    jax = {"JAX device_put, own process": 900.0, "JAX jit, own process": 800.0}
    rows = [row(ROWS, **{HEAT: 100.0, **jax}), row(BACK), row(CUBE, **{HEAT: 3000.0})]
    assert rows[0].best() == "numpy pack, Alltoallv" and HEAT not in rows[0].by_hand()
    assert rows[0].best_of("JAX") == "JAX jit, own process" and rows[1].best_of("heat") is None
    head, line, without = (
        table_head(RESHARD_LIBRARIES),
        table_row(rows[0], RESHARD_LIBRARIES),
        table_row(rows[1], RESHARD_LIBRARIES),
    )
    for column, cell in {"heat": "100 us", "JAX": "800 us", "DTensor": "-", "copyto": "50.0 us"}.items():
        end = head.index(f" {column}") + 1 + len(column)
        assert line[:end].endswith(f" {cell}")
    assert without[: head.index(" heat") + 5].endswith("  -")
    rows[1].skipped["heat"] = "it cuts this shape into other blocks"
    text = summary(rows)
    assert "heat skipped in 1 of 3 rows: it cuts this shape into other blocks" in text
    (line,) = (line for line in text if line.startswith("heat takes"))
    assert "2 rows; 0.50x (2-d 512^2 rows to columns) to 15.00x (3-d 32^3 0 to 2)" in line
    assert not any("DTensor" in line for line in text)


def test_markdown_and_json(tmp_path):
    rows = [row(ROWS, **{HEAT: 100.0}), row(CUBE)]
    path = tmp_path / "rows.md"
    write_files(Outputs(markdown=str(path)), {}, "A caption.", table(["heat"]), rows, summary(rows))
    text = path.read_text().splitlines()
    lines = [line for line in text if line.startswith("|")]
    assert text[0] == "A caption." and len(lines) == 4 and len({line.count("|") for line in lines}) == 1
    assert summary(rows)[0] in text and " heat |" in lines[0]
    again = json.loads(json.dumps([each.to_dict() for each in rows]))
    assert again[0]["row"] == ROWS.name and again[0]["contenders"][OURS]["raw"] == 210.0
    assert again[0]["best_peer_over_ours"] == 3 and again[1]["shape"] == [32, 32, 32]
    assert again[1]["alltoallw_over_message"] == pytest.approx(1.8)
    read = [RowFigures.from_dict(ReshardCase, each) for each in again]
    assert [table(["heat"]).line(each) for each in read] == [table(["heat"]).line(each) for each in rows]
    assert read[0].case == ROWS and read[1].plan == "direct"
