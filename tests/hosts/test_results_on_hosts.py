"""Results on several hosts: a sample of everything against numpy, where ranks are spread in several ways."""

from pathlib import Path

import pytest
from support.hosts.runs import run_on_hosts

CHECKS = Path(__file__).resolve().parents[1] / "support" / "hosts" / "checks.py"
PARTS = ["operations", "plans", "messages", "halos", "reshardings", "arrays"]


@pytest.mark.parametrize(
    ("options", "hosts", "near"),
    [
        (["--ranks-per-node", "2,2"], "0011", 1),
        (["--ranks-per-node", "1,1,1"], "012", 0),
        (["--ranks-per-node", "3,1"], "0001", 2),
        pytest.param(["-n", "4", "--map", "cyclic"], "0101", 1, marks=pytest.mark.full),
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
