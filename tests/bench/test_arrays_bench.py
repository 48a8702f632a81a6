"""The benchmark of arrays: right contenders, honest verdicts, and rows in full."""

import json
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from support.jobs import clean_environment, needs_mpiexec
from support.patience import run_in_time

import spmd_grid as sg
from spmd_grid.bench.arrays.by_hand import ByHand
from spmd_grid.bench.arrays.cases import OPS, RANDOM, ArraysCase, Limit, all_cases, block_of, quick_cases, raised
from spmd_grid.bench.arrays.dask_process import answer
from spmd_grid.bench.arrays.libraries import ARRAY_LIBRARY_TYPES
from spmd_grid.bench.arrays.measure import check_ours_and_by_hand
from spmd_grid.bench.arrays.report import BY_HAND, NUMPY, RowFigures, summary, table
from spmd_grid.bench.common.rows import ARRAY_LIBRARIES, OURS, Figure
from spmd_grid.grid.box import Box

SMALL, LARGE = ArraysCase("a + b", 64), ArraysCase("a + b", 4096)
SUM, STENCIL = ArraysCase("a.sum()", 64), ArraysCase("5-point stencil in slices", 512)


def row(case=SMALL, ours=9.0, numpy=1.5, by_hand=1.25, heat=27.0, disturbed=False):
    us = {OURS: ours, NUMPY: numpy, BY_HAND: by_hand, f"heat {case.op}": heat}
    figures = {name: Figure(value, 0.9 * value, 1.1 * value, value, 3) for name, value in us.items()}
    return RowFigures(case, figures, {}, 61, disturbed=disturbed, skipped={"dask": "dask is not installed"})


class Together:
    """The part of a communicator that checks need, on simulated ranks."""

    def __init__(self, grid):
        self.grid, self.rank, self.size = grid, grid.rank, grid.size

    def allgather(self, value):
        return sg.all_gather(np.array([value]), self.grid, [0], 0).tolist()


# -- the contenders --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("ranks", [1, 3])
def test_ours_and_by_hand_are_right(op, ranks):
    def body():
        grid = sg.init_grid((-1,))
        check_ours_and_by_hand(ArraysCase(op, 7), grid, Together(grid))

    try:
        sg.run_spmd(body, ranks=ranks)
    except sg.ImplicitGatherError as refusal:
        pytest.skip(str(refusal))  # the benchmark skips the row with this reason


def test_a_wrong_result_is_noticed(monkeypatch):
    from spmd_grid.bench.arrays import measure

    monkeypatch.setattr(measure, "by_hand", lambda *_: ByHand(lambda: np.zeros((7, 7)), slice(0, 7)))

    def body():
        grid = sg.init_grid((-1,))
        check_ours_and_by_hand(ArraysCase("a + b", 7), grid, Together(grid))

    with pytest.raises(RuntimeError, match="by hand gives a wrong result in 'a \\+ b, 7\\^2 blocks': wrong cells"):
        sg.run_spmd(body, ranks=2)


def test_blocks_are_parts_of_one_array():
    whole = block_of(Box((0, 0), (6, 4)), 1)
    assert np.array_equal(block_of(Box((3, 1), (6, 3)), 1), whole[3:, 1:3])
    assert len(np.unique(whole)) == whole.size and whole.min() >= 0 and whole.max() < 1
    assert not np.array_equal(block_of(Box((0, 0), (6, 4)), 0), whole)


@pytest.mark.skipif(find_spec("dask") is None, reason="dask is not installed")
@pytest.mark.parametrize("op", OPS)
def test_dask_is_right(op):
    reply = answer(op, 12, 2, 5, 0.01)
    assert (reply == {"declined": "it has no sort"}) if OPS[op].ndim == 1 else list(reply["figures"]) == [op]


# -- the report ------------------------------------------------------------------------------------------------


def test_the_cases():
    cases = all_cases()
    assert len({case.name for case in cases}) == len(cases) and set(quick_cases()) <= set(cases)
    assert {"a + b, 64^2 blocks", "a + b, 4096^2 blocks", "np.sort(a), 1-d, blocks of 16,384"} < {c.name for c in cases}
    assert SMALL.limit == Limit("numpy", most_us=8.0) and LARGE.limit == Limit("numpy", speed=0.97)
    assert SUM.limit == Limit("by hand", most_us=3.0) and STENCIL.limit == Limit("by hand", speed=0.8)
    assert ArraysCase("a + b", 512).limit is None and ArraysCase(RANDOM, 1024).limit.speed == pytest.approx(1 / 1.2)
    assert tuple(kind.name for kind in ARRAY_LIBRARY_TYPES) == ARRAY_LIBRARIES


@pytest.mark.parametrize(
    ("found", "is_met"),
    [
        (row(ours=9.4), True),
        (row(ours=9.6), False),
        (row(LARGE, ours=100.0, numpy=98.0), True),
        (row(LARGE, ours=100.0, numpy=96.0), False),
        (row(SUM, ours=9.0, by_hand=6.1), True),
        (row(SUM, ours=9.0, by_hand=5.9), False),
        (row(STENCIL, ours=100.0, by_hand=81.0, numpy=1.0), True),
        (row(STENCIL, ours=100.0, by_hand=79.0, numpy=200.0), False),
        (row(ArraysCase("a.T", 64)), None),
    ],
)
def test_limits(found, is_met):
    assert found.is_met is is_met
    assert table().line(found).endswith("-" if is_met is None else ": met" if is_met else ": missed")


def test_the_table():
    head, line = table(["heat"]).head(), table(["heat"]).line(row())
    cells = {"ours": "9.00 us", "numpy": "1.50 us", "by hand": "1.25 us", "heat": "27.0 us", "numpy/ours": "0.17"}
    for column, cell in cells.items():
        assert line[: head.index(column) + len(column)].endswith(f" {cell}")
    assert line.endswith("at most 8 us above numpy: met")


def test_verdicts():
    lines = summary([row(), row(LARGE, ours=100.0, numpy=150.0, heat=50.0), row(SUM, ours=9.0, disturbed=True)])
    assert lines[0].startswith("WARNING: other work on the machine disturbed 1 of 3 rows")
    median, least = "heat takes 3.00x as long as ours in the median of 3 rows", "0.50x (a + b, 4096^2 blocks)"
    assert lines[1] == f"{median}; {least} to 3.00x (a.sum(), 64^2 blocks)"
    assert lines[2] == "dask skipped in 3 of 3 rows: dask is not installed"
    verdicts = {line.split("  ", 1)[1].strip().split(":")[0]: line.split()[0] for line in lines[3:]}
    assert verdicts == {
        "a + b": "met",
        "a.sum()": "missed",
        "5-point stencil in slices": "not",
        "standard_normal": "not",
        "faster than every other library": "missed",
    }
    assert "met           a + b: at most 8 us above numpy: 1 of 1 rows; most 7.50 us (a + b, 64^2 blocks)" in lines


def test_figures_are_read_again():
    written = json.loads(json.dumps(row().to_dict()))
    assert written["limit"] == "at most 8 us above numpy" and written["is_met"] is True
    again = RowFigures.from_dict(ArraysCase, written)
    assert again.case == SMALL and json.loads(json.dumps(again.to_dict())) == written


@needs_mpiexec
def test_rows_on_mpi(tmp_path):
    figures, markdown = tmp_path / "figures.json", tmp_path / "table.md"
    words = ["bench", "arrays", "-n2", "--quick", "--rounds=1", "--rows=a*64^2", f"--json={figures}"]
    words += [f"--markdown={markdown}", "--peers=dask"]
    done = run_in_time(
        [sys.executable, "-W", "error", "-m", "spmd_grid", *words], env=clean_environment(), cwd=tmp_path, limit=240
    )
    assert done.returncode == 0, done
    written = json.loads(figures.read_text())
    assert written["ranks"] == 2 and written["rounds"] == 1
    assert [each["row"] for each in written["rows"]] == [c.name for c in all_cases() if c.side == 64 and "a" in c.op]
    dask = {name for each in written["rows"] for name in each["contenders"] if name.startswith("dask")}
    assert (written["skipped"] == {}) == bool(dask) == (find_spec("dask") is not None)
    assert "`python -m spmd_grid bench arrays`" in markdown.read_text() and "a + b: at most 8 us" in done.stdout


def test_reasons_of_errors():
    """An error without a message is told by the line that raised it."""

    def reason(function):
        try:
            function()
        except Exception as error:
            return raised(error)

    def fail():
        raise AssertionError

    assert reason(lambda: np.zeros(2).reshape(3)) == (
        "it raises ValueError: cannot reshape array of size 2 into shape (3,)"
    )
    assert reason(fail) == "it raises AssertionError: at raise AssertionError"
