"""Steps that run as MPI's own collectives if processes do not share memory: those are logarithmic.

Blocks are known from the layouts, so no header is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid.exchange.transfer.execute import next_tag, run_message
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.grid.groups import group_members
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.reshard.executor.exchanges.node_sharing import few_nodes
from spmd_grid.reshard.executor.members import coords_of, coords_of_process, member_of
from spmd_grid.reshard.planner.steps import BROADCAST, NATIVE, Step
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import Shape

__all__ = ["NativeExchange", "is_native"]


def is_native(step: Step, comm: Communicator, memory: bool) -> bool:
    """Whether a step runs as a native collective: alike on all processes that take part in it.

    Collective where the members of ``comm`` have not met.
    ``memory``: whether processes of a node may exchange data through memory.
    """
    if step.kind not in NATIVE or step.target.sharding.halo_sizes or few_nodes(comm) is not None:
        return False  # between few nodes, each box crosses to a node once
    coords = coords_of(step.target, comm)
    if step.kind == BROADCAST or coords is None:
        processes: Sequence[int] = comm.processes
    else:
        grid = step.target.grid
        processes = [grid.process(device) for device in group_members(grid, coords, step.grid_axes)]
    return not memory or any(comm.process.arena.base_of(process) is None for process in processes)


class NativeExchange:
    """An all_gather within the groups of a step, or a broadcast from its only source.

    Collective over ``comm`` when made and when run.
    """

    works_in_place = False  # contiguous memory is sent unpacked, so the result must not overwrite it
    staging_bytes = 0  # nothing is staged, only sent as messages

    def __init__(self, step: Step, dtypes: Sequence[np.dtype], comm: Communicator, grid: ProcessGrid):
        # Other groups may run this step as an exchange of boxes: all members must count channels alike.
        comm.channels += 1
        self._joint_comm = comm
        source, target = coords_of(step.source, comm), coords_of(step.target, comm)
        self._empty = [np.empty((0,) * step.source.ndim, dtype) for dtype in dtypes]
        self.target_shape = None if target is None else step.target.local_shape(target)
        self._transfer: Transfer | None = None
        if source is None and target is None:
            return
        if step.kind == BROADCAST:
            self._comm = comm
            self._transfer = _broadcast(step, comm)
        else:
            self._comm = grid.like(step.target.grid, "reshard").group(step.grid_axes)
            self._transfer = _all_gather(step, self._comm)

    def run(self, arrays: Sequence[np.ndarray] | None, results: Sequence[np.ndarray] | None) -> None:
        """Send every block to every member's result, one array after the other.  Collective."""
        transfer = self._transfer
        for i, empty in enumerate(self._empty):
            next_tag(self._joint_comm)
            if transfer is None:
                continue
            source = arrays[i] if arrays is not None and transfer.source_shape is not None else None
            if results is not None and self.target_shape is not None:
                target = results[i]
            else:
                target = np.empty(transfer.target_shape or (), empty.dtype)
            run_message(self._comm, transfer, source, target)

    def retire(self) -> None:
        """Do nothing: no buffers are kept.  Local."""


def _all_gather(step: Step, comm: Communicator) -> Transfer:
    """This member's part of the all_gather of blocks within its group."""
    layout, me = step.source, comm.processes[comm.rank]
    target = step.target.local_box(coords_of_process(step.target.grid, me))
    receives = []
    for member, process in enumerate(comm.processes):
        coords = coords_of_process(layout.grid, process)
        core = layout.core_box(coords)
        if not core.is_empty:
            receives.append(Receive(member, layout.core_in_local(coords), core.relative_to(target.starts)))
    own_coords = coords_of_process(layout.grid, me)
    own = layout.core_in_local(own_coords)
    sends = () if own.is_empty else tuple(Send(member, own) for member in range(comm.size))
    shape = layout.local_shape(own_coords)
    return _transfer("all_gather", comm, shape, target.shape, sends, receives, target.size)


def _broadcast(step: Step, comm: Communicator) -> Transfer:
    """This member's part of the broadcast from the source's only device."""
    layout = step.source
    root = member_of(layout.grid.process(0), comm)
    lent = layout.core_in_local((0,) * layout.grid.ndim)
    shape = layout.local_shape((0,) * layout.grid.ndim) if comm.rank == root else None
    sends = tuple(Send(member, lent) for member in range(comm.size)) if comm.rank == root else ()
    whole = Box.from_shape(step.target.global_shape)
    return _transfer("broadcast", comm, shape, whole.shape, sends, [Receive(root, lent, whole)], whole.size, root)


def _transfer(
    pattern: str,
    comm: Communicator,
    source_shape: Shape | None,
    target_shape: Shape,
    sends: tuple[Send, ...],
    receives: Sequence[Receive],
    volume: int,
    root: int | None = None,
) -> Transfer:
    return Transfer(pattern, comm.rank, comm.size, source_shape, target_shape, sends, tuple(receives), volume, root)
