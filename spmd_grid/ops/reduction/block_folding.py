"""reduce_scatter of arrays that can be read: each member folds its own block of all arrays."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.transfer.flat_bytes import copy_views, scratch, view_of
from spmd_grid.exchange.transfer.transfer import run_of
from spmd_grid.grid.box import Box, pieces_of
from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.ops.reduction.folding import Folding
from spmd_grid.transport.communicator import Frames
from spmd_grid.typing import Shape

__all__ = ["PIECE_BYTES", "BlockFolding"]

# Blocks that are not contiguous are folded in pieces of this many bytes, over all members.
PIECE_BYTES = 1 << 19

# Up to this many bytes over all members, numpy folds faster than the kernel.
_SMALL_BYTES = 1 << 14


class BlockFolding:
    """Folds the box ``block`` of the members' arrays of ``shape`` and ``dtype``."""

    def __init__(self, call: CollectiveCall, shape: Shape, dtype: np.dtype, block: Box, folding: Folding):
        self._call, self._folding = call, folding
        self._shape, self._dtype, self._block = shape, dtype, block
        self._known_rows: dict[bytes, tuple[list[np.ndarray], np.ndarray]] = {}

    def run(self, frames: Frames, arrays: list[np.ndarray], target: np.ndarray) -> None:
        """Fold the block into ``target``: at once if it is one run of memory, else in pieces through a stack."""
        if self._run is not None and target.flags.c_contiguous:
            rows, addresses = self._rows(frames, arrays, self._run[0])
            flat = target.reshape(-1)
            if len(rows) <= 2 or len(rows) * flat.nbytes <= _SMALL_BYTES:
                self._folding.arrays(rows, flat)
            else:
                self._folding.addresses(addresses, flat)
        else:
            self._fold_pieces(arrays, target)
        if frames.lent:
            self._call.meeting.depart(frames)

    def _fold_pieces(self, arrays: list[np.ndarray], target: np.ndarray) -> None:
        most = max(PIECE_BYTES // (len(arrays) * self._dtype.itemsize), 1)
        with scratch(self._call.comm.process, (len(arrays) + 1, min(most, self._block.size)), self._dtype) as buffer:
            assert buffer is not None
            for piece in pieces_of(self._block, most):
                stack = buffer[:-1, : piece.size].reshape(len(arrays), *piece.shape)
                copy_views([(view_of(array, piece), row) for array, row in zip(arrays, stack)])
                folded = buffer[-1, : piece.size]
                self._folding.stack(buffer[:-1, : piece.size], folded)
                view_of(target, piece.relative_to(self._block.starts))[...] = folded.reshape(piece.shape)

    @cached_property
    def _run(self) -> tuple[int, int] | None:
        """The first cell and the number of cells of the block; None if its cells are not one run of memory."""
        return run_of(self._shape, [self._block])

    def _rows(self, frames: Frames, arrays: list[np.ndarray], first: int) -> tuple[list[np.ndarray], np.ndarray]:
        """The block of each member's array, and the addresses of these."""
        found = None if frames.locations is None else self._known_rows.get(frames.locations)
        if found is None:
            rows = [array.reshape(-1)[first : first + self._block.size] for array in arrays]
            found = rows, np.array([kernels.address_of(row) for row in rows], np.int64)
            if frames.locations is not None:
                keep(self._known_rows, frames.locations, found)
        return found
