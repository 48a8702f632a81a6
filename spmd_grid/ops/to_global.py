"""to_global: everybody's core at its place in the global array."""

from __future__ import annotations

from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.grid.groups import in_group_device
from spmd_grid.grid.layout import Layout
from spmd_grid.ops.calls.arguments import root_index
from spmd_grid.ops.calls.collective import CollectiveCall, Operation
from spmd_grid.ops.calls.shape_rules import same_dtype
from spmd_grid.ops.movement.box_moves import Movement

__all__ = ["assemble"]


class Assemble(Operation):
    """Everybody's core at its place in the global array; the first copy of each is taken."""

    name = "to_global"

    def prepare(self, grid, axes, layout, root) -> dict:
        return {"layout": layout, "root": None if root is None else root_index(self.name, grid, axes, root)}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Movement:
        comm, layout, root = call.comm, call.args.layout, call.args.root
        dtype = same_dtype(self.name, facts, call.label)
        receivers = range(comm.size) if root is None else [root]
        receives = []
        for member in range(comm.size):
            coords = in_group_device(call.grid.grid, call.axes, member)
            box = layout.core_box(coords)
            if self._contributes(layout, coords) and not box.is_empty:
                receives.append(Receive(member, Box.from_shape(box.shape), box))
        own = Box.from_shape(facts[comm.rank].shape)
        sends = self._contributes(layout, call.grid.coords) and not own.is_empty
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
        return Movement(call, facts, transfer, layout.global_shape if mine else None, dtype, False)

    def _contributes(self, layout: Layout, coords) -> bool:
        return layout.is_owner(coords) and all(coords[axis] == 0 for axis in layout.sharding.partial_axes)


assemble = Assemble()
