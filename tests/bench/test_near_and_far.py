"""Several runs of a benchmark are one file: each row as it was on near processors, and as it was on far ones."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "near_and_far.py"
spec = importlib.util.spec_from_file_location("near_and_far", SCRIPT)
near_and_far = importlib.util.module_from_spec(spec)
spec.loader.exec_module(near_and_far)


def run(*rows, ranks=2):
    keys = "row", "hop_ns", "best_peer_over_ours", "disturbed"
    return {"ranks": ranks, "rows": [dict(zip(keys, row, strict=True)) for row in rows]}


def test_the_median_of_near_and_of_far_runs():
    runs = [
        run(("a", 80.0, 3.0, False), ("b", 300.0, 1.0, False)),
        run(("a", 80.0, 1.0, False), ("b", 90.0, 2.0, False)),
        run(("a", 80.0, 2.0, False), ("b", None, 4.0, False)),
        run(("a", 300.0, 0.5, False)),
    ]
    found = near_and_far.joined(runs)
    assert found["ranks"] == 2 and found["runs"] == 3  # the most of any row
    assert [(row["row"], row["best_peer_over_ours"]) for row in found["rows"]] == [
        ("a", 2.0),
        ("a", 0.5),
        ("b", 2.0),  # the lower one of two
        ("b", 1.0),
    ]


def test_disturbed_runs_count_where_there_are_no_others():
    runs = [run(("a", 80.0, 1.0, True), ("b", 80.0, 2.0, True)), run(("a", 80.0, 5.0, False))]
    assert [row["best_peer_over_ours"] for row in near_and_far.joined(runs)["rows"]] == [5.0, 2.0]


def test_rows_that_do_not_tell_count_as_near_and_undisturbed():
    runs = [{"ranks": 4, "rows": [{"row": "a", "best_peer_over_ours": ratio}]} for ratio in (1.0, 3.0, 2.0)]
    assert near_and_far.joined(runs) == {"ranks": 4, "runs": 3, "rows": [{"row": "a", "best_peer_over_ours": 2.0}]}


def test_runs_of_other_settings_are_refused(tmp_path, monkeypatch, capsys):
    with pytest.raises(ValueError, match="ranks is 2 in one run and 3 in another"):
        near_and_far.joined([run(), run(ranks=3)])
    (tmp_path / "1.json").write_text(json.dumps(run(("a", 300.0, 1.0, False))))
    target = tmp_path / "all.json"
    monkeypatch.setattr(near_and_far.sys, "argv", ["near_and_far.py", str(target), str(tmp_path / "1.json")])
    near_and_far.main()
    assert json.loads(target.read_text())["rows"][0]["row"] == "a"
    assert capsys.readouterr().out == f"{target}: 0 rows of near processors, 1 of far ones, of at most 1 runs each\n"
