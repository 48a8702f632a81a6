"""Transfers of reductions: parts to the members that fold them, and folded slices to the members that need them.

As in the reduce-scatter and all-gather algorithm of R. Rabenseifner, "Optimization of Collective Reduction Operations"
(ICCS 2004).
"""

from __future__ import annotations

from collections.abc import Sequence

from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import Shape

__all__ = ["collect_parts", "collect_whole", "spread_slices"]


def _row(box: Box, row: int) -> Box:
    """The box that ``box`` is in row ``row`` of a stack."""
    return Box((row, *box.starts), (row + 1, *box.stops))


def collect_whole(comm: Communicator, n: int, root: int | None) -> Transfer:
    """Collect the n elements of each member as rows of a stack, on root or on all."""
    whole = Box((0,), (n,))
    receivers = range(comm.size) if root is None else [root]
    mine = comm.rank in receivers
    return Transfer(
        pattern="all_gather" if root is None else "gather",
        rank=comm.rank,
        size=comm.size,
        source_shape=(1, n),
        target_shape=(comm.size, n) if mine else None,
        sends=tuple(Send(peer, _row(whole, 0)) for peer in receivers) if n else (),
        receives=tuple(Receive(i, _row(whole, 0), _row(whole, i)) for i in range(comm.size)) if mine and n else (),
        volume=n * comm.size,
        root=root,
    )


def collect_parts(comm: Communicator, shape: Shape, parts: Sequence[Box], own: bool = True) -> Transfer:
    """Collect this member's part of each array as rows of a stack; ``own``: that of its own array as well."""
    mine = parts[comm.rank]
    row = Box.from_shape(mine.shape)
    peers = [peer for peer in range(comm.size) if own or peer != comm.rank]
    return Transfer(
        pattern="all_to_all",
        rank=comm.rank,
        size=comm.size,
        source_shape=(1, *shape),
        target_shape=(comm.size, *mine.shape),
        sends=tuple(Send(peer, _row(parts[peer], 0)) for peer in peers if not parts[peer].is_empty),
        receives=() if mine.is_empty else tuple(Receive(i, _row(mine, 0), _row(row, i)) for i in peers),
        volume=max(part.size for part in parts) * comm.size,
    )


def spread_slices(comm: Communicator, n: int, slices: Sequence[Box], root: int | None, in_place: bool) -> Transfer:
    """Send each folded slice to its part of the result, on root or on all; ``in_place``: the own one is there."""
    mine = slices[comm.rank]
    source = Box((0,), mine.shape)
    receivers = range(comm.size) if root is None else [root]
    left_out = comm.rank if in_place else None
    receives = tuple(
        Receive(peer, Box((0,), part.shape), part)
        for peer, part in enumerate(slices)
        if not part.is_empty and peer != left_out
    )
    native = "all_gather" if root is None else "gather"
    return Transfer(
        pattern="pairwise" if in_place else native,
        rank=comm.rank,
        size=comm.size,
        source_shape=mine.shape,
        target_shape=(n,) if comm.rank in receivers else None,
        sends=() if mine.is_empty else tuple(Send(peer, source) for peer in receivers if peer != left_out),
        receives=receives if comm.rank in receivers else (),
        volume=n,
        root=root,
    )
