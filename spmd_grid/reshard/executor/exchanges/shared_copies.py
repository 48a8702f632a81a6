"""Copies of cells between the results of one node's processes, in place, through staging of a limited size."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.channel.calls import ChannelCall
from spmd_grid.exchange.channel.channel import Channel
from spmd_grid.exchange.channel.copy_table import Taken
from spmd_grid.exchange.channel.shared_block import LINE_PAIR_BYTES
from spmd_grid.exchange.paths import STAGED
from spmd_grid.grid.cells import Cells
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.calls.bounded_cache import keep
from spmd_grid.ops.calls.collective import CollectiveCall
from spmd_grid.reshard.executor.exchanges.staged_rounds import Rounds, n_pieces
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import Shape

__all__ = ["SharedCopies"]


class SharedCopies:
    """Cells of this process's result that others of its node copy, and those that it copies from theirs.

    Collective over ``comm`` when made, over the node when run.  ``gives`` and ``takes``: as those of a `Channel`, of
    which no cell is both given and taken.  ``capacity``: the most bytes of staging; if more is given, it goes in
    rounds.
    """

    def __init__(
        self,
        comm: Communicator,
        shape: Shape,
        dtypes: Sequence[np.dtype],
        gives: list[tuple[int, Cells]],
        takes: list[Taken],
        capacity: int,
        activity: CollectiveCall | None,
    ):
        meeting, n_bytes = meeting_of(comm), sum(dtype.itemsize for dtype in dtypes)
        boxes = max(meeting.most(2 * len(gives)), 1)
        most = max((capacity // boxes - LINE_PAIR_BYTES) // n_bytes, 1)
        count = meeting.most(max([n_pieces(cells, most) for _, cells in gives], default=1))
        self._rounds = Rounds(gives, takes, comm.rank, most, count)
        self._channel = Channel(comm, shape, dtypes, gives, takes, rounds=self._rounds, activity=activity)
        self._channel.choose(STAGED)
        self._calls: dict[Hashable, ChannelCall] = {}

    def run(self, results: Sequence[np.ndarray]) -> None:
        """Copy all cells.  Collective over the node."""
        key = tuple([(kernels.address_of(x), x.strides) for x in results])
        call = self._calls.get(key)
        if call is None:
            call = self._channel.call(results, in_rounds=True)
            call.words[at.CALL_FIELDS + at.F_OBJECT :: at.FIELD_WORDS] = 0  # a new view of the same memory serves too
            keep(self._calls, key, call)
        for number in range(self._rounds.count):
            self._channel.run_round(number, call)

    @property
    def staging_bytes(self) -> int:
        """Number of bytes allocated for packed cells."""
        return self._channel.staging_bytes

    def retire(self) -> None:
        """Give the channel back.  Local."""
        self._channel.retire()
