"""The boxes of a redistribution of one array as those of an operation that moves them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.executor.members import coords_of_process, member_of
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import Shape

__all__ = ["facts_of", "receives_of", "transfer_of"]


def facts_of(layout: Layout, comm: Communicator, dtype: np.dtype) -> list[Facts]:
    """The shapes and dtypes of the members' arrays in a layout.  Local."""
    shapes = [_shape_of(layout, process) for process in comm.processes]
    return [Facts(None, None) if shape is None else Facts(shape, dtype) for shape in shapes]


def receives_of(move: Redistribution, process: int, comm: Communicator) -> Sequence[Receive]:
    """The boxes that a process gets, those that it has itself among them; peers are members of ``comm``.  Local."""
    target = move.target.grid.coords_of_process(process)
    if target is None:
        return ()
    corner, kept, own = move.target.local_box(target).starts, move.kept_box(target), move.own_source(target)
    pieces = [(piece.process, piece.box) for piece in move.receives(target)]
    if kept is not None and own is not None:
        pieces.append((process, kept))
    found = []
    for peer, box in pieces:
        origin = move.source.local_box(coords_of_process(move.source.grid, peer)).starts
        found.append(Receive(member_of(peer, comm), box.relative_to(origin), box.relative_to(corner)))
    return found


def transfer_of(move: Redistribution, comm: Communicator, receives: Sequence[Receive]) -> Transfer:
    """This member's part, in which each member fetches what it ``receives``.  Local."""
    me = comm.processes[comm.rank]
    ends = _shape_of(move.source, me), _shape_of(move.target, me)
    return Transfer("pairwise", comm.rank, comm.size, *ends, tuple(_sends_of(move, me, comm)), tuple(receives), 0)


def _sends_of(move: Redistribution, process: int, comm: Communicator) -> list[Send]:
    """The boxes of a process's array that others get.  Local."""
    source = move.source.grid.coords_of_process(process)
    if source is None:
        return []
    origin = move.source.local_box(source).starts
    return [Send(member_of(peer, comm), box.relative_to(origin)) for peer, box in move.sends(source)]


def _shape_of(layout: Layout, process: int) -> Shape | None:
    coords = layout.grid.coords_of_process(process)
    return None if coords is None else layout.local_shape(coords)
