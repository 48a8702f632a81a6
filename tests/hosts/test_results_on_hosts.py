"""Results on several hosts: a sample of everything against numpy, where ranks are spread in several ways."""

from pathlib import Path

import pytest
from support.hosts.runs import run_on_hosts

CHECKS = Path(__file__).resolve().parents[1] / "support" / "hosts" / "checks.py"
# What a plan has read may change as soon as it has run, also where another member of the node has sent it.
_CHANGES = """
import numpy as np
import spmd_grid as sg
grid = sg.init_grid((-1,))
folds = ("all_reduce", {}), ("reduce", {"root": [grid.size - 1]}), ("reduce_scatter", {"scatter_axis": 0})
for n, steps in ((1 << 11, 60), (1 << 14, 40), (1 << 17, 24)):
    x = grid.allocate((n,), np.float64)
    for name, options in folds:
        with getattr(sg, name).plan(grid, x.shape, "float64", [0], reduction="max", **options) as plan:
            for step in range(steps):
                x[...] = 10 * step + grid.size - grid.rank
                result = plan.run(x)
                x[...] = -1
                assert result is None or (result == 10 * step + grid.size).all(), (name, n, step)
    with sg.all_to_all.plan(grid, x.shape, "float64", [0], 0, 0) as plan:
        for step in range(steps):
            x[...] = 10 * step + grid.rank
            result = plan.run(x)
            x[...] = -1
            assert (result.reshape(grid.size, -1).T == 10 * step + np.arange(grid.size)).all(), (n, step)
"""
PARTS = ["operations", "plans", "messages", "halos", "reshardings", "arrays"]


@pytest.mark.parametrize(
    ("options", "hosts", "near"),
    [
        (["--ranks-per-node", "2,2"], "0011", 1),
        (["--ranks-per-node", "1,1,1"], "012", 0),
        (["--ranks-per-node", "3,1"], "0001", 2),
        (["-n", "4", "--map", "cyclic"], "0101", 1),
        pytest.param(["-n", "6", "--nodes", "3", "--latency", "200us", "--rate", "1gbit"], "001122", 1,
                     marks=pytest.mark.full),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_all_is_as_on_one_host(options, hosts, near):
    run = run_on_hosts(*options, "--", "python", CHECKS, limit=120)
    assert run.code == 0 and not run.left and not run.err, run
    lines = run.out.splitlines()
    assert [line.partition(":")[0] for line in lines[:-1]] == PARTS, run
    names = [f"node{host}" for host in hosts]
    assert lines[-1] == f"ranks on {names}, memory of {near} others in sight", run


@pytest.mark.parametrize("spread", ["block", "cyclic"])
def test_arrays_change_as_soon_as_a_plan_has_run(tmp_path, spread):
    program = tmp_path / "changes.py"
    program.write_text(_CHANGES)
    links = ["--latency", "100us", "--rate", "1gbit"]
    run = run_on_hosts("-n", 4, "--nodes", 2, "--map", spread, *links, "--", "python", program, limit=60)
    assert run.code == 0 and not run.left and not run.err, run
