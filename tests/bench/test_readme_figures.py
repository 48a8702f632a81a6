"""The figures of the pages are those that the benchmarks wrote; and a changed one is found."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "readme_figures.py"
spec = importlib.util.spec_from_file_location("readme_figures", SCRIPT)
figures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(figures)

TEXTS = [page.read_text() for page in figures.PAGES]
_, PERFORMANCE, *_ = TEXTS
PAGES = pytest.mark.parametrize("page", TEXTS, ids=[page.name for page in figures.PAGES])


@PAGES
def test_pages_have_the_figures_that_were_measured(page):
    assert figures.differences(page) == []
    assert figures.rewritten(page) == page


def test_every_benchmark_is_shown():
    shown = {begin.split()[2].rstrip(",") for page in TEXTS for begin, _ in figures.enclosed(page)}
    assert shown == set(figures.BENCHES)


@PAGES
def test_comments_on_a_page(page):
    assert page.count("<!--") == 2 * len(figures.enclosed(page))
    assert not re.search(r"^<!-- figures: \w+,", page, re.MULTILINE)  # Markdown would take the line for HTML


@pytest.mark.parametrize("kind", ["halo", "reshard", "ops"])
def test_a_changed_figure_of_a_table_is_found(kind):
    (shown,) = (shown for begin, shown in figures.enclosed(PERFORMANCE) if begin == f"<!-- figures: {kind} -->")
    row = shown.strip().splitlines()[3]
    cells = row.split(" | ")
    changed = PERFORMANCE.replace(row, " | ".join([cells[0], "77.7 us", *cells[2:]]))
    begin, *lines = figures.differences(changed)
    assert begin == f"<!-- figures: {kind} -->" and "77.7 us" in lines[0]
    assert f"+ {row}" in lines and len(lines) == 2
    assert figures.rewritten(changed) == PERFORMANCE


def test_a_changed_figure_of_a_sentence_is_found():
    place = "<!-- figures: ops, small calls -->"
    changed = PERFORMANCE.replace(place, f"{place}about ")
    begin, was, due = figures.differences(changed)
    assert begin == place and was.startswith("- about ") and due.startswith("+ ")
    assert figures.rewritten(changed) == PERFORMANCE


def test_a_line_may_break_within_a_sentence():
    broken = PERFORMANCE.replace("of the 54 rows<!-- end -->", "of the\n54 rows<!-- end -->")
    assert broken != PERFORMANCE and figures.differences(broken) == [] and figures.rewritten(broken) == broken


def test_a_table_shows_the_rows_that_it_names():
    lines = PERFORMANCE.splitlines(keepends=True)
    fewer = "".join(line for line in lines if not line.startswith("| broadcast, 8 B |"))
    assert figures.differences(fewer) == [
        "<!-- figures: ops, rows shown -->",
        "- 45 of the 80 rows",
        "+ 44 of the 80 rows",
    ]


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("<!-- figures: sleep -->\n<!-- end -->", "there is no bench sleep"),
        ("x <!-- figures: halo, dreams -->1<!-- end -->", "bench halo has no such phrase"),
        ("<!-- figures: ops -->\n| op |\n|---|\n| snore, 8 B |\n<!-- end -->", "no row is called 'snore, 8 B'"),
    ],
)
def test_what_no_file_has(page, reason):
    with pytest.raises(LookupError, match=reason):
        figures.rewritten(page)


def test_a_phrase_without_figures(tmp_path):
    found = json.loads((figures.ROOT / "docs" / "bench_ops.json").read_text())
    for row in found["rows"]:
        row["contenders"].pop("numba-mpi", None)
    (tmp_path / "bench_ops.json").write_text(json.dumps(found))
    with pytest.raises(LookupError, match="no row of bench ops has the figures of <!-- figures: ops, numba mpi -->"):
        figures.rewritten("A sum takes <!-- figures: ops, numba mpi -->1 us<!-- end -->.", tmp_path)


def test_the_command(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text(PERFORMANCE.replace("| broadcast, 8 B | ", "| broadcast, 8 B | 1"))
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "PAGES", [page])
    monkeypatch.setattr(figures.sys, "argv", ["readme_figures.py"])
    assert figures.main() == 1
    assert capsys.readouterr().out.startswith("page.md differs (-) from docs/bench_*.json (+):\n<!-- fig")
    monkeypatch.setattr(figures.sys, "argv", ["readme_figures.py", "--write"])
    assert figures.main() == 0 and page.read_text() == PERFORMANCE
    monkeypatch.setattr(figures.sys, "argv", ["readme_figures.py"])
    assert figures.main() == 0 and capsys.readouterr().out == ""
