"""What the processes of a program learn of each other when it starts: who shares memory and cores, what is watched."""

from __future__ import annotations

import os

from spmd_grid.errors import TransportError
from spmd_grid.transport.arena import Arena, ranks_per_node, segment_size, share_memory
from spmd_grid.transport.asked_path import asked_path, join_paths
from spmd_grid.transport.mpi.library import MPI
from spmd_grid.transport.mpi.liveness.leftover_files import unlink_mapped
from spmd_grid.watch.settings import Settings

__all__ = ["agreed_settings", "survey_node"]


def survey_node(comm) -> tuple[bool, Arena]:
    """Whether any node has more ranks than the union of the cores they may use, and the memory that this node's
    processes share.  Collective.

    The environment may differ between processes; what is wrong with it on one is raised on all.
    """
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    size, per_node, problem = 0, None, ""
    try:
        size, per_node = segment_size(node.size), ranks_per_node()
    except TransportError as error:
        problem = str(error)
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    members = node.allgather((comm.rank, size, cores))
    if node.rank == 0:
        unlink_mapped()
    crowded = node.size > (len(set().union(*[cores for _, _, cores in members])) or os.cpu_count() or 1)
    problem, crowded, per_node = comm.allreduce((problem, crowded, per_node or 0), MPI.MAX)
    if problem:
        raise TransportError(problem)
    if per_node:
        whole, node = node, node.Split(comm.rank // per_node)
        whole.Free()
        members = [member for member in members if member[0] // per_node == comm.rank // per_node]
    arena = share_memory(node, [process for process, _, _ in members], min(size for _, size, _ in members))
    node.Free()
    return crowded, arena


def agreed_settings(comm) -> Settings:
    """What the environments of all processes ask to be watched; which path they ask for is known from now on.

    Collective.
    """
    settings, problem = Settings(), ""
    try:
        settings = Settings.from_environment()
    except TransportError as error:
        problem = str(error)
    everybody = comm.allgather((settings, problem, asked_path()))
    for _, problem, _ in everybody:
        if problem:
            raise TransportError(problem)
    join_paths([path for _, _, path in everybody])
    return Settings.joined([settings for settings, _, _ in everybody])
