"""Grids in the order of the model on several hosts: neighbours share hosts, and results are right."""

from pathlib import Path

import pytest
from support.hosts.runs import run_on_hosts

ORDERED = Path(__file__).resolve().parents[1] / "support" / "hosts" / "ordered.py"


@pytest.mark.parametrize(
    ("options", "shape", "wanted"),
    [
        (["-n", "4", "--map", "cyclic"], "4", "node0 node0 node1 node1 1 of 3 pairs apart"),
        (["--ranks-per-node", "3,1"], "2x2", "node0 node0 node0 node1 2 of 2 pairs apart"),
        pytest.param(["--ranks-per-node", "1,3"], "4", "node0 node1 node1 node1 1 of 1 pairs apart",
                     marks=pytest.mark.full),
        pytest.param(["-n", "4", "--map", "cyclic"], "2x2", "node0 node1 node0 node1 2 of 2 pairs apart",
                     marks=pytest.mark.full),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_neighbours_share_hosts(options, shape, wanted):
    run = run_on_hosts(*options, "--all-cores", "--", "python", ORDERED, shape, limit=120)
    assert run.code == 0 and not run.left and not run.err, run
    assert run.out == f"{wanted} True True\n", run
