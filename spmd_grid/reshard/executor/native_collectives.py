"""Steps that are one of MPI's own collectives, where processes do not share memory: these are logarithmic.

Blocks are known from the layouts, so nothing has to be asked first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid.exchange.transfer.execute import next_tag, run_message
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.grid.groups import group_members
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.reshard.executor.members import coords_of, place_of
from spmd_grid.reshard.planner.steps import BROADCAST, NATIVE, Step
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import Shape

__all__ = ["NativeExchange", "is_native"]


def is_native(step: Step, comm: Communicator, memory: bool) -> bool:
    """Whether a step goes by a native collective: alike on all processes that take part in it.  Local.

    ``memory``: whether processes of a node may meet in memory.
    """
    if step.kind not in NATIVE or step.target.sharding.halo_sizes:
        return False
    coords = coords_of(step.target, comm)
    if step.kind == BROADCAST or coords is None:
        members = comm.processes
    else:
        grid = step.target.grid
        members = [grid.process(device) for device in group_members(grid, coords, step.grid_axes)]
    return not memory or any(comm.process.arena.base_of(process) is None for process in members)


class NativeExchange:
    """An all_gather within the groups of a step, or a broadcast from its only source.

    Collective over ``comm`` when made and when run.
    """

    keeps_places = False  # what is sent is not packed where memory is contiguous
    staging_bytes = 0  # all of it goes in messages

    def __init__(self, step: Step, dtypes: Sequence[np.dtype], comm: Communicator, grid: ProcessGrid):
        # Others may run this step as an exchange of boxes: what members count alike, they count alike here too.
        comm.channels += 1
        self._everybody = comm
        source, target = coords_of(step.source, comm), coords_of(step.target, comm)
        self._empty = [np.empty((0,) * step.source.ndim, dtype) for dtype in dtypes]
        self.target_shape = None if target is None else step.target.local_shape(target)
        self._takes_part = source is not None or target is not None
        self._transfer: Transfer | None = None
        if not self._takes_part:
            return
        if step.kind == BROADCAST:
            self._comm = comm
            self._transfer = _broadcast(step, comm)
        else:
            self._comm = grid.like(step.target.grid, "reshard").group(step.grid_axes)
            self._transfer = _all_gather(step, self._comm)

    def run(self, arrays: Sequence[np.ndarray] | None, results: Sequence[np.ndarray] | None) -> None:
        """Brings every block to every member's result, one array after the other.  Collective."""
        for i, empty in enumerate(self._empty):
            next_tag(self._everybody)
            if not self._takes_part:
                continue
            source = arrays[i] if self._transfer.source_shape is not None else None
            target = results[i] if self.target_shape is not None else np.empty(self._transfer.target_shape, empty.dtype)
            run_message(self._comm, self._transfer, source, target)

    def retire(self) -> None:
        """Nothing is kept.  Local."""


def _all_gather(step: Step, comm: Communicator) -> Transfer:
    layout, target = step.source, step.target.local_box(coords_of(step.target, comm))
    receives, own = [], None
    for place, process in enumerate(comm.processes):
        coords = layout.grid.multi_index(layout.grid.device_of_process(process))
        core = layout.core_box(coords)
        lent = layout.core_in_local(coords)
        if place == comm.rank:
            own = lent
        if not core.is_empty:
            receives.append(Receive(place, lent, core.relative_to(target.starts)))
    sends = () if own.is_empty else tuple(Send(place, own) for place in range(comm.size))
    shape = layout.local_shape(coords_of(layout, comm))
    return _transfer("all_gather", comm, shape, target.shape, sends, receives, target.size)


def _broadcast(step: Step, comm: Communicator) -> Transfer:
    layout = step.source
    root = place_of(layout.grid.process(0), comm)
    lent = layout.core_in_local((0,) * layout.grid.ndim)
    shape = layout.local_shape((0,) * layout.grid.ndim) if comm.rank == root else None
    sends = tuple(Send(place, lent) for place in range(comm.size)) if comm.rank == root else ()
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
