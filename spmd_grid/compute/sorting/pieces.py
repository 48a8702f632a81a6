"""The exchange of pieces of any lengths: each member's row of cells is cut into one piece for every member."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.paths import chosen_path
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.collective import CollectiveCall, CollectiveOperation
from spmd_grid.ops.calls.shape_rules import same_dtype
from spmd_grid.ops.movement.movement import Movement

__all__ = ["Pieces", "swap_pieces"]


class Pieces:
    """The lengths of the pieces: ``counts[i, j]`` cells go from member i to member j, in the order of the members."""

    def __init__(self, counts: np.ndarray):
        self.counts = counts
        self._text = f"{counts.sum()} cells, #{blake2b(counts.tobytes(), digest_size=8).hexdigest()}"

    def there(self, i: int, j: int) -> Box:
        """The piece from member i to member j, in the cells of member i."""
        start = int(self.counts[i, :j].sum())
        return Box((start,), (start + int(self.counts[i, j]),))

    def here(self, i: int, j: int) -> Box:
        """The piece from member i to member j, in the cells that member j receives."""
        start = int(self.counts[:i, j].sum())
        return Box((start,), (start + int(self.counts[i, j]),))

    def back(self) -> Pieces:
        """The pieces of the way back."""
        return Pieces(np.ascontiguousarray(self.counts.T))

    def __str__(self) -> str:
        return self._text


class SwapPieces(CollectiveOperation):
    """Send piece j of a row of cells to member j, and join the pieces received, in the order of the members.

    Collective over the group.  Each cell moves once.
    """

    name = "swap_pieces"

    def __call__(self, x: np.ndarray, grid: ProcessGrid, axes: tuple[int, ...], pieces: Pieces) -> np.ndarray:
        """The cells that this member receives.  Collective; a part of an operation that has passed the gate."""
        # The call is not kept: lengths of pieces follow from data, and the next ones differ.
        call = CollectiveCall(self, grid, axes, {"pieces": pieces}, "", chosen_path(), grid.process.gate.thread_name())
        return self._run(call, x, None)

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], *args: Any, **options: Any) -> dict[str, Any]:
        raise NotImplementedError("calls of swap_pieces are made for their pieces, and never looked up")

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Movement:
        comm, pieces = call.comm, call.args.pieces
        me, shape = comm.rank, (int(pieces.counts[:, comm.rank].sum()),)
        transfer = Transfer(
            pattern="all_to_all",
            rank=me,
            size=comm.size,
            source_shape=facts[me].shape,
            target_shape=shape,
            sends=tuple([Send(j, box) for j in range(comm.size) if not (box := pieces.there(me, j)).is_empty]),
            receives=tuple(
                [
                    Receive(i, pieces.there(i, me), box)
                    for i in range(comm.size)
                    if not (box := pieces.here(i, me)).is_empty
                ]
            ),
            volume=int(pieces.counts.sum()),
        )
        return Movement(call, facts, transfer, shape, same_dtype(self.name, facts, call.label))


swap_pieces = SwapPieces()
