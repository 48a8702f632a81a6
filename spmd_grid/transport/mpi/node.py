"""The facts that processes exchange when a program starts: shared memory and cores, and settings of watching."""

from __future__ import annotations

import os
from typing import cast

from spmd_grid.errors import TransportError
from spmd_grid.transport.arena import Arena, share_memory
from spmd_grid.transport.asked_path import asked_path, join_paths
from spmd_grid.transport.mpi.library import MPI
from spmd_grid.transport.mpi.liveness.leftover_files import unlink_mapped
from spmd_grid.transport.segment_sizes import ranks_per_node, segment_size
from spmd_grid.watch.settings import Settings

__all__ = ["agreed_settings", "survey_node"]


def survey_node(comm: MPI.Intracomm) -> tuple[bool, Arena, tuple[int, ...], int]:
    """Survey the nodes: (whether any is crowded, the shared memory of this one, all nodes, this process's cores).

    Crowded is a node with more ranks than cores that they may use together.  The nodes are told by process: the first
    process of its node, or itself where they share no memory.  The cores are this process's share of those that it may
    use, 0 if that is not known.

    Collective.  The environment may differ between processes; an invalid setting of one is raised on all.
    """
    node = cast(MPI.Intracomm, comm.Split_type(MPI.COMM_TYPE_SHARED))
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
    share = max(len(cores) // sum(not cores.isdisjoint(other) for _, _, other in members), 1) if cores else 0
    problem, crowded, per_node = comm.allreduce((problem, crowded, per_node or 0), MPI.MAX)
    if problem:
        raise TransportError(problem)
    if per_node:
        whole, node = node, cast(MPI.Intracomm, node.Split(comm.rank // per_node))
        whole.Free()
        members = [member for member in members if member[0] // per_node == comm.rank // per_node]
    arena = share_memory(node, [process for process, _, _ in members], min(size for _, size, _ in members))
    node.Free()
    sees_others = min(size for _, size, _ in members) > 0
    return crowded, arena, tuple(comm.allgather(members[0][0] if sees_others else comm.rank)), share


def agreed_settings(comm: MPI.Intracomm) -> Settings:
    """The settings of watching that the environments of all processes ask for together.  Collective.

    From now on, this process also knows the path that they ask for (`asked_path`).
    """
    settings, problem = Settings(), ""
    try:
        settings = Settings.from_environment()
    except TransportError as error:
        problem = str(error)
    answers = comm.allgather((settings, problem, asked_path()))
    for _, problem, _ in answers:
        if problem:
            raise TransportError(problem)
    join_paths([path for _, _, path in answers])
    return Settings.joined([settings for settings, _, _ in answers])
