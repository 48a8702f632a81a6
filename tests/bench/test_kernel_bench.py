"""The kernel benchmark: both contenders of every row do the same, and the report says what was measured."""

import json

import numpy as np
import pytest

from spmd_grid.bench.common.report import Outputs
from spmd_grid.bench.kernels import cases as kernel_cases
from spmd_grid.bench.kernels.measure import run_bench


def test_names_are_unique():
    names = [case.name for case in kernel_cases.all_cases()]
    assert len(set(names)) == len(names) and {case.name for case in kernel_cases.quick_cases()} <= set(names)


@pytest.mark.parametrize("shape", [(5, 7), (3, 4, 5)])
def test_both_copy(shape):
    source = np.arange(np.prod(shape), dtype="f8").reshape(shape).T
    target = np.zeros(source.shape)
    for call in kernel_cases.copy_calls(source, target):
        target[...] = 0
        call()
        assert np.array_equal(target, source)


RANDOM = {case.what: case for case in kernel_cases.all_cases() if case.group == "random"}


@pytest.mark.parametrize("what", RANDOM)
def test_both_draw(what):
    """Numbers of the same distribution: their sums agree, and those that are to have equal bits have them."""
    ours, numpys = RANDOM[what].make()
    out = ours.args[0].reshape(-1)
    ours()
    found, other = out.copy(), numpys()
    assert abs(np.mean(found, dtype="f8") - np.mean(other, dtype="f8")) < 0.01 * np.std(other, dtype="f8")
    assert abs(np.std(found, dtype="f8") / np.std(other, dtype="f8") - 1) < 0.01
    if "uniform float64" in what or what.endswith("below 10"):
        assert np.array_equal(found[:1000], other[:1000])


def test_report(capsys, tmp_path):
    cases = [case for case in kernel_cases.all_cases() if case.name == "fold: sum of 2 rows of 128 float64"]
    run_bench(cases, 3, Outputs(str(tmp_path / "k.json"), str(tmp_path / "k.md")))
    figures = json.loads((tmp_path / "k.json").read_text())
    (row,) = figures["rows"]
    assert row["ratio"] == row["numpy"] / row["ours"] > 0 and row["low"] <= row["ours"] <= row["high"]
    assert cases[0].name in capsys.readouterr().out and cases[0].name in (tmp_path / "k.md").read_text()
    assert figures["summary"][0].endswith("of 1 rows reach their goal")
