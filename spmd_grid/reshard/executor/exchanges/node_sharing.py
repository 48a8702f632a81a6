"""The pieces of an exchange between nodes of several processes: those that cross, and their copies on a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from spmd_grid.exchange.agreement.choose_meeting import meeting_of
from spmd_grid.exchange.channel.copy_table import Taken
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.exchange.paths import allows_memory, chosen_path
from spmd_grid.grid.box import Box
from spmd_grid.grid.cells import Cells
from spmd_grid.links.sizes import FEW_NODES, FEW_SHARING
from spmd_grid.reshard.executor.members import coords_of, coords_of_process, member_of
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.geometry.node_pieces import NodePieces, Shared, pieces_to_node
from spmd_grid.reshard.geometry.pieces import Piece
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["NodeSharing", "few_nodes"]

Copies: TypeAlias = tuple[list[tuple[int, Cells]], list[Taken]]  # by member: cells given, and cells taken


def few_nodes(comm: Communicator) -> NodeMap | None:
    """The nodes of a group, of which some have several members; None where no piece can be shared, alike on all.

    Collective where the members of ``comm`` have not met.
    """
    if comm.shares_memory or not allows_memory(chosen_path()):
        return None
    stage = meeting_of(comm).stage
    if stage is None or comm.size > FEW_SHARING or len(stage.nodes.nodes) > FEW_NODES:
        return None
    return stage.nodes


class NodeSharing:
    """This process's pieces of ``move``, of which those that several members of a node need cross to it once."""

    def __init__(self, move: Redistribution, comm: Communicator, nodes: NodeMap):
        self._move, self._comm, self._nodes = move, comm, nodes
        self._known: dict[int, NodePieces] = {}

    @staticmethod
    def of(move: Redistribution, comm: Communicator) -> NodeSharing | None:
        """The sharing of an exchange; None where nothing is shared on any node.  Collective."""
        nodes = few_nodes(comm)
        if nodes is None:
            return None
        sharing = NodeSharing(move, comm, nodes)
        found = sharing._to(nodes.node_of[comm.rank])
        return sharing if meeting_of(comm).most(int(bool(found.shared or found.here))) else None

    def receives(self) -> list[Piece]:
        """The pieces that this process receives, as `Redistribution.receives`.  Local."""
        target = coords_of(self._move.target, self._comm)
        if target is None:
            return []
        own = self._node(self._me)
        near = [piece for piece in self._move.receives(target) if self._node(piece.process) == own]
        here = [Piece(holder, box) for holder, receiver, box in self._to(own).here if receiver == self._me]
        return near + here + self._to(own).crossing[self._me]

    def sends(self) -> list[Piece]:
        """The pieces that this process sends, as `Redistribution.sends`; in its receivers' order.  Local."""
        source = coords_of(self._move.source, self._comm)
        if source is None:
            return []
        own, pieces = self._node(self._me), self._move.sends(source)
        found = [piece for piece in pieces if self._node(piece.process) == own]
        found += [Piece(receiver, box) for holder, receiver, box in self._to(own).here if holder == self._me]
        for node in sorted({self._node(piece.process) for piece in pieces} - {own}):
            for receiver, crossing in self._to(node).crossing.items():
                found += [Piece(receiver, piece.box) for piece in crossing if piece.process == self._me]
        return found

    @property
    def crossing_cells(self) -> int:
        """The number of cells that cross between nodes.  Local."""
        nodes = range(len(self._nodes.nodes))
        return sum(piece.box.size for node in nodes for each in self._to(node).crossing.values() for piece in each)

    def gives(self) -> list[Piece]:
        """The pieces of its result that others of this node copy.  Local."""
        return [Piece(taker, box) for owner, taker, box in self._shared if owner == self._me]

    def copies(self, result_of: Callable[[MultiIndex], tuple[Shape, MultiIndex]]) -> Copies:
        """The cells of results that this process gives to others of its node, and those that it takes from theirs.

        Local.  ``result_of``: the shape of the result at some coordinates, and the global coordinates of its first
        cell.  Both ends list cells in the same order.
        """
        comm, gives, takes = self._comm, [], []
        for owner, taker, box in self._shared:
            if self._me not in (owner, taker):
                continue
            shape, theirs = result_of(coords_of_process(self._move.target.grid, owner))
            source = Cells.of_box(box.relative_to(theirs))
            if owner == self._me:
                gives.append((member_of(taker, comm), source))
            else:
                _, mine = result_of(coords_of_process(self._move.target.grid, taker))
                takes.append(Taken(member_of(owner, comm), Cells.of_box(box.relative_to(mine)), source, shape))
        return sorted(gives, key=lambda give: give[0]), sorted(takes, key=lambda take: take.member)

    @property
    def _shared(self) -> Sequence[Shared]:
        """The boxes that are copied on this node once they have come."""
        return self._to(self._node(self._me)).shared

    @property
    def _me(self) -> int:
        return self._comm.processes[self._comm.rank]

    def _node(self, process: int) -> int:
        return self._nodes.node_of[member_of(process, self._comm)]

    def _to(self, node: int) -> NodePieces:
        """The cells that cross to a node; any process can tell."""
        found = self._known.get(node)
        if found is None:
            wanted: dict[int, list[Piece]] = {}
            held: dict[int, Box] = {}
            for member in self._nodes.nodes[node]:
                process = self._comm.processes[member]
                there = self._move.target.grid.coords_of_process(process)
                here = self._move.source.grid.coords_of_process(process)
                if there is not None:
                    pieces = self._move.receives(there)
                    wanted[process] = [piece for piece in pieces if self._node(piece.process) != node]
                if here is not None:
                    held[process] = self._move.source_box(here)
            found = self._known[node] = pieces_to_node(wanted, held, self._move.itemsize)
        return found
