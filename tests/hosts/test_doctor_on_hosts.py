"""The doctor on several hosts: where ranks are, what each host has, how messages travel, and what to do."""

import json

import pytest
from support.hosts.runs import no_memfd, run_on_hosts
from support.jobs import clean_environment, is_mpich

from spmd_grid.cli.doctor.hosts import of_hosts, transport_in
from spmd_grid.cli.doctor.verdict import OK, SLOW

LINKS = {
    "node_latency": 4e-7, "node_bandwidth": 6e9, "network_latency": 2e-5, "network_bandwidth": 1e9,
    "cable_bandwidth": 1.2e9,
}  # fmt: skip


def host(name, *ranks, **changed):
    alone = {"cores": 2, "shared": 1 << 30, "problems": [], "networks": []}
    return {"name": name, "ranks": list(ranks), **alone, **changed}


def checks_of(*hosts, transport="UCX: tcp/eth0"):
    return {check.name: check for check in of_hosts({"hosts": list(hosts), "links": LINKS}, transport)}


def doctor(*options, n=4, **environment):
    run = run_on_hosts(
        *options, "--", "python", "-m", "spmd_grid", "doctor", "-n", n, "--json", "--limit", 240,
        action="exec", limit=60, **environment,
    )  # fmt: skip
    assert run.code == 0 and not run.left, run
    return {check["name"]: check for check in json.loads(run.out)["checks"]}


def test_a_cluster():
    found = doctor("-n", 4)
    assert found["hosts"]["value"] == "2: node0 (ranks 0-1), node1 (ranks 2-3)" and found["hosts"]["verdict"] == OK
    assert found["node0, node1"]["value"].startswith("2 ranks each, "), found
    assert "a rank are read in place" in found["node0, node1"]["value"]
    assert found["network transport"]["value"] == ("UCX: tcp/eth0" if is_mpich() else "Open MPI: tcp")
    assert "by all of a host" in found["links between hosts"]["value"] and "links within hosts" in found
    assert "on different nodes" in found["ping of 8 bytes"]["value"]
    assert not {"cores", "shared arrays", "single copy"} & set(found)  # each host has its own


def test_a_rank_on_each_host():
    found = doctor("-n", 3, "--nodes", 3, n=3)
    assert found["hosts"]["value"] == "3: node0 (rank 0), node1 (rank 1), node2 (rank 2)"
    assert found["hosts"]["verdict"] == OK and found["node0, node1, node2"]["value"] == "1 rank each, 1 core"
    assert "links between hosts" in found and "links within hosts" not in found


def test_ranks_that_are_spread_badly_on_a_host_without_proc():
    environment = {"MPIR_CVAR_CH4_NETMOD": "ofi"} if is_mpich() else {}  # UCX does not start there
    found = doctor("-n", 4, "--map", "cyclic", "--setup", 1, "umount -l /proc", **environment)
    assert found["hosts"]["value"] == "2: node0 (ranks 0, 2), node1 (ranks 1, 3)" and found["hosts"]["verdict"] == SLOW
    for advice in ("'host:2' in the host file", "-ppn 2 (MPICH)", "--map-by slot", 'init_grid(..., order="auto")'):
        assert advice in found["hosts"]["advice"]
    assert "read in place" in found["node0"]["value"]
    assert "ranks do not see each other's memory" in found["node1"]["value"]
    assert "/proc cannot be read" in found["node1"]["value"] and "mount -t proc" in found["node1"]["advice"]


def test_hosts_with_unequal_numbers_of_ranks_of_which_one_has_no_memfd(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(no_memfd("node0"))
    found = doctor("--ranks-per-node", "3,1", PYTHONPATH=f"{tmp_path}:{clean_environment()['PYTHONPATH']}")
    assert found["hosts"]["value"] == "2: node0 (ranks 0-2), node1 (rank 3)" and found["hosts"]["verdict"] == SLOW
    assert found["hosts"]["advice"].startswith("One host has 3 ranks, another 1: ")
    assert found["node0"]["value"].startswith("3 ranks, ") and found["node1"]["value"].startswith("1 rank, ")
    assert "this system makes no anonymous shared files (memfd)" in found["node0"]["value"]
    assert "sent in messages" in found["node0"]["advice"]
    assert "ranks 0 and 3 on different nodes" in found["ping of 8 bytes"]["value"]


def test_hosts_that_are_alike_share_a_line():
    found = checks_of(*[host(f"node{n}", n) for n in range(9)])
    name = "node0, node1, node2, node3 and 5 more"
    assert found[name].value == "1 rank each, 2 cores" and found[name].verdict == OK
    assert found["hosts"].value.endswith("node3 (rank 3) and 5 more")
    assert "links within hosts" not in found and found["links between hosts"].value == "20.0 us, 1 GB/s"


@pytest.mark.parametrize(
    ("hosts", "name", "advice"),
    [
        ([host("a", 0, 2), host("b", 1, 3)], "hosts", "fill one host after the other"),
        ([host("a", 0, 1, 2), host("b", 3)], "hosts", "One host has 3 ranks, another 1"),
        ([host("a", 0, 1, shared=0), host("b", 2, 3)], "a", "unset SPMD_GRID_ARENA"),
        ([host("a", 0, 1, networks=["mlx5_0"]), host("b", 2, 3)], "network transport", "faster network (mlx5_0)"),
        ([host("a", 0, problems=[{"name": "cores", "value": "1 usable", "advice": "take turns"}]), host("b", 1)],
         "a", "take turns"),
    ],
)  # fmt: skip
def test_what_is_wrong_says_what_to_do(hosts, name, advice):
    assert {check.verdict for check in checks_of(host("a", 0, 1), host("b", 2, 3)).values()} == {OK}
    (check,) = [check for check in checks_of(*hosts).values() if check.verdict != OK]
    assert (check.verdict, check.name) == (SLOW, name) and advice in check.advice


def test_what_libraries_say():
    assert transport_in("libfabric provider: cxi - 1\nMPIDI_OFI_ENABLE_DATA: 1") == "OFI: cxi - 1"
    both = "cfg#1 tag(rc_mlx5/mlx5_0:1)\ninter-node cfg#2 tag(rc_mlx5/mlx5_0:1)\ninter-node cfg#3 tag(ud)"
    assert transport_in(both) == "UCX: rc_mlx5/mlx5_0:1, ud"
    assert transport_in("nothing of the kind") == ""
