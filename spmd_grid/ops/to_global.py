"""to_global: assemble the global array from the cores of all members."""

from __future__ import annotations

from typing import Any

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.grid.groups import in_group_device
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import root_index
from spmd_grid.ops.calls.collective import CollectiveCall, CollectiveOperation
from spmd_grid.ops.calls.shape_rules import same_dtype, shape_of
from spmd_grid.ops.movement.movement import Movement
from spmd_grid.typing import MultiIndex

__all__ = ["assemble"]


class Assemble(CollectiveOperation):
    """Assemble the global array from the members' cores, each from the first member that holds a copy of it."""

    name = "to_global"

    def prepare(self, grid: ProcessGrid, axes: tuple[int, ...], layout: Layout, root: Any) -> dict[str, Any]:
        return {"layout": layout, "root": None if root is None else root_index(self.name, grid, axes, root)}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Movement:
        comm, layout, root, own_coords = call.comm, call.args.layout, call.args.root, call.grid.coords
        assert own_coords is not None  # `check_grid` has refused processes outside the grid
        dtype = same_dtype(self.name, facts, call.label)
        receivers = range(comm.size) if root is None else [root]
        receives = []
        for member in range(comm.size):
            coords = in_group_device(call.grid.grid, call.axes, member)
            box = layout.core_box(coords)
            if self._contributes(layout, coords) and not box.is_empty:
                receives.append(Receive(member, Box.from_shape(box.shape), box))
        own = Box.from_shape(shape_of(facts[comm.rank]))
        sends = self._contributes(layout, own_coords) and not own.is_empty
        mine = comm.rank in receivers
        transfer = Transfer(
            pattern="all_gather" if root is None else "gather",
            rank=comm.rank,
            size=comm.size,
            source_shape=own.shape,
            target_shape=layout.global_shape if mine else None,
            sends=tuple(Send(peer, own) for peer in receivers) if sends else (),
            receives=tuple(receives) if mine else (),
            volume=layout.domain_box.size,
            root=root,
        )
        return Movement(call, facts, transfer, layout.global_shape if mine else None, dtype)

    def _contributes(self, layout: Layout, coords: MultiIndex) -> bool:
        """Whether the device at ``coords`` sends its core."""
        return layout.is_owner(coords) and all(coords[axis] == 0 for axis in layout.sharding.partial_axes)


assemble = Assemble()
