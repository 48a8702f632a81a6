"""The exchange of one dimension's halos along a line of devices, for `update_halo`."""

from __future__ import annotations

from itertools import accumulate

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.paths import DIRECT
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.halo.geometry.line import halo_pieces, in_domain
from spmd_grid.ops.calls.collective import CollectiveCall

__all__ = ["LineExchange"]


class LineExchange:
    """The exchange of one dimension: the blocks of this device's line, and the `Transfer` of its part of the halos.

    ``reads_arrays``: whether members copy from one another's arrays, as simulated ranks do; others send messages.
    """

    def __init__(self, call: CollectiveCall, facts: list[Facts]):
        self.comm = call.comm
        self.reads_arrays = call.path is DIRECT and call.comm.shares_objects
        self.dim, self.low, self.high = call.args.dim, call.args.low, call.args.high
        self.periodic = call.args.periodic
        cores = [fact.array()[0][self.dim] - self.low - self.high for fact in facts]
        self.starts = [0, *accumulate(cores)]
        self.extent = in_domain(self.starts, self.comm.rank, self.low, self.high, self.periodic)

    def transfer(self, shape: tuple[int, ...], across: list[tuple[int, int]]) -> Transfer:
        """The movement along this line; ``across``: the part of every dimension that strips extend over."""
        me = self.comm.rank
        origin = self.starts[me] - self.low

        def strip(start: int, stop: int) -> Box:
            sides = [*across]
            sides[self.dim] = (start, stop)
            return Box(tuple(a for a, _ in sides), tuple(b for _, b in sides))

        receives = []
        for piece in halo_pieces(self.starts, me, self.low, self.high, self.periodic):
            theirs = self.starts[piece.owner] - self.low
            receives.append(
                Receive(
                    piece.owner,
                    strip(piece.start - theirs, piece.stop - theirs),
                    strip(piece.at, piece.at + piece.stop - piece.start),
                )
            )
        sends = []
        if self.starts[me] < self.starts[me + 1]:
            for peer in range(self.comm.size):
                for piece in halo_pieces(self.starts, peer, self.low, self.high, self.periodic):
                    if piece.owner == me:
                        sends.append(Send(peer, strip(piece.start - origin, piece.stop - origin)))
        return Transfer(
            pattern="pairwise",
            rank=me,
            size=self.comm.size,
            source_shape=shape,
            target_shape=shape,
            sends=tuple(send for send in sends if not send.box.is_empty),
            receives=tuple(receive for receive in receives if not receive.box.is_empty),
            volume=0,
        )
