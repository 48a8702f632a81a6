"""Comparing two revisions: only variants that are slower twice are reported, and noise is not."""

import importlib.util
from argparse import Namespace
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "compare_revisions.py"
spec = importlib.util.spec_from_file_location("compare_revisions", SCRIPT)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

BASE, NEW = script.Revision("base", Path("base")), script.Revision("new", Path("new"))
OPTIONS = Namespace(rows="*", turns=3, rounds=1, ranks=2)
STEADY, SLOW, NOISY = (script.Key(row, "spmd_grid") for row in ("steady, 8 B", "slow [0], 8 B", "noisy, 8 B"))


@pytest.fixture
def measured(monkeypatch):
    """Records what is measured; the noisy row is slow on the new revision in the first measurement only."""
    calls = []

    def measure(revision, benchmark, rows, options):
        calls.append((revision.name, rows))
        is_new = revision is NEW
        times = {STEADY: 1.0, SLOW: 2.0 + is_new, NOISY: 1.0 + (is_new and rows == "*")}
        return {key: us + 0.01 * len(calls) for key, us in times.items()}

    monkeypatch.setattr(script, "measure", measure)
    return calls


def test_only_what_is_slower_twice_is_reported(measured, capsys):
    assert script.compare([BASE, NEW], "ops", OPTIONS) == {SLOW}
    assert [name for name, rows in measured if rows == "*"] == ["base", "new", "new", "base", "base", "new"]
    assert sum(rows == "slow ?0], 8 B" for _, rows in measured) == 12 == sum(rows == NOISY.row for _, rows in measured)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("ops: 3 variants in 3 rows; new over base: median ") and first.endswith(
        "; 2 looked slower, 1 are"
    )
    assert second.startswith("  slow [0], 8 B: spmd_grid: 2.")


def test_variants_of_one_revision_are_counted(monkeypatch, capsys):
    monkeypatch.setattr(
        script, "measure", lambda revision, *_: {STEADY: 1.0, **({SLOW: 2.0} if revision is NEW else {})}
    )
    assert script.compare([BASE, NEW], "ops", OPTIONS) == set()
    assert "1 variants in 1 rows (1 others in one revision only)" in capsys.readouterr().out


def test_nothing_in_common(monkeypatch):
    monkeypatch.setattr(script, "measure", lambda revision, *_: {STEADY if revision is NEW else SLOW: 1.0})
    with pytest.raises(SystemExit, match="no variant of bench ops in common"):
        script.compare([BASE, NEW], "ops", OPTIONS)


def test_no_such_revision(tmp_path):
    with pytest.raises(SystemExit, match="'no-such-revision' is not a revision of"):
        script.check_out("no-such-revision", tmp_path / "base")
