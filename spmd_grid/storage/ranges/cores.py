"""The cores of an array in memory: a process writes to those of all processes with which it shares memory.

So what one has read need not be sent:

    process 0 reads rows 0 and 1        core of process 0    core of process 1
    of columns cut among two               a a                    b b
                                           c c                    d d        all four corners written by process 0
    process 1 reads rows 2 and 3           e e                    f f
                                           g g                    h h        by process 1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import numpy as np

from spmd_grid import kernels
from spmd_grid.array import ShardedArray
from spmd_grid.errors import SpmdError
from spmd_grid.exchange.paths import DIRECT, chosen_path, path_for
from spmd_grid.grid.box import Box
from spmd_grid.grid.layout import Layout
from spmd_grid.storage.team import Team
from spmd_grid.typing import MultiIndex

__all__ = ["HeldCore", "kept_while_written", "own_core", "cores_of_all"]

# The box of cells that a device holds, and these cells.
HeldCore = tuple[Box, np.ndarray]

_KEPT = "arrays to which other processes may still write"


def own_core(array: ShardedArray, layout: Layout) -> HeldCore:
    """This process's core; ``layout``: the array's, of at least one dimension.  Local."""
    box = layout.core_box(array.grid.own_coords)
    return box, array.core_to_write().reshape(box.shape) if not array.shape else array.core_to_write()


def cores_of_all(own: HeldCore, layout: Layout, team: Team) -> list[HeldCore] | None:
    """The cores of all processes; None where one of them cannot write to all, or cells must be combined.

    Collective.  Until all processes have agreed that they are done, none may look at its core or let go of it: see
    `kept_while_written`.
    """
    if layout.sharding.partial_axes or path_for(team.group, chosen_path()) != DIRECT:
        return None
    arena, (_, core) = team.group.process.arena, own
    offset = arena.offset_of(kernels.address_of(core), _span(core.shape, core.strides, core.itemsize))
    told = team.gather(np.array([offset, *core.strides], np.int64)).reshape(team.size, -1)
    if told[:, 0].min() < 0:  # the arena of one of them had no space
        return None
    cores = []
    for process, (start, *strides) in zip(team.processes, told.tolist(), strict=True):
        coords = cast(MultiIndex, layout.grid.coords_of_process(process))
        box, base = layout.core_box(coords), cast(int, arena.base_of(process))
        memory = kernels.bytes_at(base + start, _span(box.shape, strides, core.itemsize))
        cores.append((box, np.ndarray(box.shape, core.dtype, memory, 0, strides)))
    return cores


@contextmanager
def kept_while_written(core: np.ndarray, team: Team) -> Iterator[None]:
    """Keep the memory of ``core`` for ever if this process leaves before all have agreed that they are done.  Local."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, SpmdError) or error.cuts_off:  # others are raised by all, at the same place
            team.group.process.kept.setdefault(_KEPT, []).append(core)
        raise


def _span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Number of bytes from the first to the last cell; strides are not negative."""
    if 0 in shape:
        return 0
    return sum([(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]) + itemsize
