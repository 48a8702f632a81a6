"""The exchange for lists of numbers: each device sends each other one a piece of its array along one dimension."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.grid.groups import group_index
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.starts import BlockStarts
from spmd_grid.ops.calls.collective import CollectiveCall, CollectiveOperation
from spmd_grid.ops.calls.shape_rules import same_dtype, shape_of
from spmd_grid.ops.movement.movement import Movement
from spmd_grid.typing import Shape

__all__ = ["fetch"]


def fetch(
    core: np.ndarray, grid: ProcessGrid, axes: tuple[int, ...], dim: int, starts: BlockStarts, wanted: list[Any]
) -> np.ndarray:
    """The cells ``wanted`` by this device along ``dim`` of an array that ``axes`` cut into blocks.

    Collective over ``axes``, within an operation.  ``core``: this device's block.  ``starts``: the start of every block
    and the end.  ``wanted``: for every device of the group the numbers of cells, ascending, none twice.  A cell is
    sent once to each device that wants it.
    """
    bounds = np.array([np.searchsorted(each, starts) for each in wanted])  # by device: where each block's cells begin
    me = group_index(grid.grid, grid.own_coords, axes)
    own = [each[low:high] - starts[me] for each, low, high in zip(wanted, bounds[:, me], bounds[:, me + 1])]
    counts = _Counts(np.diff(bounds, axis=1).T.astype(np.int64).tobytes(), len(wanted))
    return _pieces.run_in_gate(np.take(core, np.concatenate(own), dim), grid, axes, (dim, counts))


@dataclass(frozen=True)
class _Counts:
    """The number of cells that each of ``size`` devices sends to each device; a value that can be compared.

    ``words``: the bytes of the `matrix`.
    """

    words: bytes
    size: int

    def matrix(self) -> np.ndarray:
        """The numbers by sender and receiver."""
        return np.frombuffer(self.words, np.int64).reshape(self.size, self.size)

    def __str__(self) -> str:
        return f"#{blake2b(self.words, digest_size=6).hexdigest()}"


class _Pieces(CollectiveOperation):
    """Sends piece i of each device's array along ``dim`` to device i; the pieces received are joined in group order."""

    name = "getitem"

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], dim: int, counts: _Counts) -> dict[str, Any]:
        return {"dim": dim, "counts": counts}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Movement:
        dim, counts, me = call.args.dim, call.args.counts.matrix(), call.comm.rank
        dtype = same_dtype(self.name, facts, call.label)
        own = shape_of(facts[me])
        target = (*own[:dim], int(counts[:, me].sum()), *own[dim + 1 :])
        sends, receives, at = [], [], 0
        for peer in range(call.comm.size):
            sent, received = int(counts[me, peer]), int(counts[peer, me])
            sends.append(Send(peer, _part(own, dim, int(counts[me, :peer].sum()), sent)))
            there = _part(own, dim, int(counts[peer, :me].sum()), received)
            receives.append(Receive(peer, there, _part(own, dim, at, received)))
            at += received
        transfer = Transfer(
            pattern="all_to_all",
            rank=me,
            size=call.comm.size,
            source_shape=own,
            target_shape=target,
            sends=tuple(send for send in sends if not send.box.is_empty),
            receives=tuple(receive for receive in receives if not receive.box.is_empty),
            volume=int(counts.sum()) * prod([n for d, n in enumerate(own) if d != dim]),
        )
        return Movement(call, facts, transfer, target, dtype)


def _part(shape: Shape, dim: int, start: int, extent: int) -> Box:
    starts = tuple([start if d == dim else 0 for d in range(len(shape))])
    return Box(starts, tuple([start + extent if d == dim else n for d, n in enumerate(shape)]))


_pieces = _Pieces()
