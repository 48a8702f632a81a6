"""The channels of a halo plan: its pattern, bound to a group of processes, its fields and its path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from spmd_grid.exchange.channel.channel import Channel
from spmd_grid.exchange.channel.copy_table import Taken
from spmd_grid.exchange.paths import allows_memory
from spmd_grid.grid.cells import Cells
from spmd_grid.grid.groups import group_members
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.halo.geometry.pattern import HaloPattern
from spmd_grid.ops.calls.arguments import as_scalar
from spmd_grid.transport.communicator import Activity
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["PlanChannels"]


class PlanChannels:
    """Makes the channels of one plan, among the devices that share its ``axes``.

    ``path``: it tells whether cells may go through shared memory.  ``activity`` describes the plan in reports.
    """

    def __init__(
        self,
        grid: ProcessGrid,
        axes: tuple[int, ...],
        pattern: HaloPattern,
        dtypes: Sequence[np.dtype],
        path: str,
        activity: Activity,
    ):
        coords = self.coords = cast(MultiIndex, grid.coords)  # `group_axes` has checked that there are some
        self.pattern = pattern
        self.local_shape = pattern.layout.local_shape(coords)
        self.comm = grid.group(axes)
        self._grid, self._dtypes, self._path, self._activity = grid, dtypes, path, activity
        self._members = group_members(grid.grid, coords, axes)

    def forward(self) -> Channel:
        """The channel that copies cells from their owners into halos.  Collective over the neighbours."""
        takes = [
            Taken(self.member_of(take.owner), Cells.of_box(take.box), take.source, self.shape_of(take.owner))
            for take in self.pattern.takes(self.coords)
        ]
        gives = [(self.member_of(give.taker), give.cells) for give in self.pattern.gives(self.coords)]
        fills = [
            (
                Cells.of_box(fill.box),
                [as_scalar("HaloExchange", "boundary", fill.value, dtype) for dtype in self._dtypes],
            )
            for fill in self.pattern.fills(self.coords)
        ]
        return self._make(gives, takes, fills)

    def reverse(self) -> Channel:
        """The channel that takes halo cells to their owners, who add them.  Collective over the neighbours."""
        gives = [(self.member_of(take.owner), Cells.of_box(take.box)) for take in self.pattern.takes(self.coords)]
        takes = [
            Taken(self.member_of(give.taker), give.cells, give.cells, self.shape_of(give.taker))
            for give in self.pattern.gives(self.coords)
        ]
        return self._make(gives, takes, lands=False)

    def _make(
        self,
        gives: Sequence[tuple[int, Cells]],
        takes: Sequence[Taken],
        fills: Sequence[tuple[Cells, Sequence[np.ndarray]]] = (),
        lands: bool = True,
    ) -> Channel:
        return Channel(
            self.comm,
            self.local_shape,
            self._dtypes,
            sorted(gives, key=lambda give: give[0]),
            sorted(takes, key=lambda take: take.member),
            fills,
            lands=lands,
            memory=allows_memory(self._path),
            activity=self._activity,
        )

    def member_of(self, device: int) -> int:
        """The member of the group that is ``device`` of the grid.  Local."""
        return self._members.index(device)

    def shape_of(self, device: int) -> Shape:
        """The local shape of a device of the grid.  Local."""
        return self.pattern.layout.local_shape(self._grid.grid.multi_index(device))

    def label(self, member: int) -> str:
        """A member as users know it: ``rank 3 (1, 0)``.  Local."""
        device, grid = self._members[member], self._grid.grid
        return f"rank {grid.process(device)} {grid.multi_index(device)}"
