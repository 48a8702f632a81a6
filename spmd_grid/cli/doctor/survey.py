"""The facts about the hosts of a job, which its ranks find together: the ranks of each host, and what it gives them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from spmd_grid.bench.common.machine import usable_cores
from spmd_grid.cli.doctor import local
from spmd_grid.cli.doctor.verdict import OK
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.links.model import LinkModel
from spmd_grid.transport.process_numbers import pid_namespace

__all__ = ["exchange_over_network", "survey_hosts", "survey_links"]


def survey_hosts(grid: ProcessGrid, comm: Any) -> list[dict[str, Any]]:
    """For each host its name and ranks, the cores that these may use together, the bytes that each may share with the
    others there, the number of their PID namespaces, its fast networks, and what is not well; in the order of the first
    ranks.

    Collective over ``comm``, of mpi4py.
    """
    from spmd_grid.transport.mpi.hosts.hosts import meet_hosts

    _, shared = grid.process.arena.own_segment()
    known = comm.allgather((usable_cores(), shared, len(grid.group((0,)).near), pid_namespace()))
    hosts, own = meet_hosts(comm), []
    cores = {name: len(set().union(*[known[rank][0] for rank in ranks])) for name, ranks in hosts.ranks.items()}
    name = hosts.names[comm.rank]
    if comm.rank == hosts.ranks[name][0]:
        n = len(hosts.ranks[name])
        own = [asdict(check) for check in (*local.memory(n), *local.cores(n, cores[name])) if check.verdict != OK]
    told = comm.allgather((own, _fast_networks()))
    found = []
    for name, ranks in hosts.ranks.items():
        sees_all = all(known[rank][2] == len(ranks) - 1 for rank in ranks)
        found.append({
            "name": name, "ranks": ranks, "cores": cores[name], "problems": told[ranks[0]][0],
            "networks": told[ranks[0]][1], "namespaces": len({known[rank][3] for rank in ranks}),
            "shared": min(known[rank][1] for rank in ranks) if sees_all else 0,
        })  # fmt: skip
    return found


def _fast_networks() -> list[str]:
    """The adapters of this host that are made for messages: InfiniBand and its like, Slingshot."""
    return sorted(path.name for kind in ("infiniband", "cxi") for path in Path("/sys/class", kind).glob("*"))


def survey_links(grid: ProcessGrid) -> dict[str, float | None]:
    """The links within hosts and between them, measured.  Collective over the grid."""
    model = LinkModel.measure(grid)
    names = ("node_latency", "node_bandwidth", "network_latency", "network_bandwidth", "cable_bandwidth")
    return {name: getattr(model, name) for name in names}


def exchange_over_network(comm: Any) -> None:
    """Sends a large array from the first process to the last, so that their library says how.  Collective."""
    x = np.ones(1 << 20, np.uint8)
    if comm.rank == 0:
        comm.Send(x, comm.size - 1)
    elif comm.rank == comm.size - 1:
        comm.Recv(x, 0)
    comm.Barrier()
