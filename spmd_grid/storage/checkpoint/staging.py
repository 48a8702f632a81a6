"""The memory that saving beside the program needs, known before anything is saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spmd_grid.array import ShardedArray
from spmd_grid.errors import DTypeError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.arguments import check_grid
from spmd_grid.storage.checkpoint.options import check_options
from spmd_grid.storage.checkpoint.tree import Arrays, to_tree
from spmd_grid.storage.checkpoint.writing import BackgroundWriter
from spmd_grid.storage.ranges.blocks import BLOCK_BYTES, Blocks
from spmd_grid.storage.ranges.move import STAGE_BYTES, given_deal
from spmd_grid.storage.team import processes_of

__all__ = ["staged_bytes"]


def staged_bytes(
    state: Mapping[str, Any],
    *,
    grid: ProcessGrid | None = None,
    stage_bytes: int = STAGE_BYTES,
    block_bytes: int = BLOCK_BYTES,
) -> int:
    """The bytes of memory that ``save(..., wait=False)`` of this state would copy blocks of this process to.

    Plans only; the options are those of `save`.  At most half of ``stage_bytes``: blocks that do not fit are written
    before that call returns.  Raises `DTypeError`, `GridError` and `StorageError` as
    `save` does.

    >>> import spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     u = sg.zeros((3000, 1000), sg.Sharding(grid, [[0]]), grid)
    ...     return sg.staged_bytes({"u": u}, block_bytes=8000), sg.staged_bytes({"u": u}, stage_bytes=16 << 20)
    >>> sg.run_spmd(body, ranks=3)
    [(8000000, 4192000), (8000000, 8384000), (8000000, 7232000)]
    """
    if grid is not None:
        check_grid("staged_bytes", grid)
    check_options(None, stage_bytes, block_bytes, "rename")
    if not isinstance(state, dict):
        raise DTypeError(f"staged_bytes: state is {type(state).__name__}; it must be a dict")
    arrays: Arrays = {}
    to_tree("staged_bytes", state, arrays)
    grids = [each.grid for each in arrays.values() if isinstance(each, ShardedArray)]
    first = grid if grid is not None else grids[0] if grids else init_grid((-1,))
    processes = processes_of(first.grid)
    rank, background = processes.index(first.rank), BackgroundWriter(stage_bytes // 2)
    everywhere = Sharding(Grid((len(processes),), ranks=processes), [])
    for each in arrays.values():
        blocks = Blocks(each.shape, each.dtype.itemsize, block_bytes)
        sharding = each.sharding if isinstance(each, ShardedArray) else everywhere
        dealt = given_deal(Layout(sharding, blocks.extents), blocks, processes, rank, background.most_bytes)
        for block in dealt.handled(rank):
            background.reserve(blocks.box(block).size * each.dtype.itemsize)
    return background.taken
