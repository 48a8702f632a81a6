"""Memory of each member that the others of its node read and write: cells wait there after or before a crossing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.links.sizes import FEW_NODES, STAGE_BYTES
from spmd_grid.transport.communicator import Communicator, Process

__all__ = ["Stage", "pays_in_lanes", "stage_memory"]

# A stage takes at most one ``_PART``-th of the memory that a process may share.
_LEAST_BYTES = 1 << 16
_PART = 16

# On more nodes than these, MPI's own collectives are faster for arrays whose lanes are smaller than this.
_LARGE_LANE = 1 << 14


def stage_memory(process: Process, is_read: bool) -> np.ndarray | None:
    """The stage of a process, which all its groups use by turns; None where its arena has no space.  Local.

    ``is_read``: whether others read it; if not, it need not lie in the arena.
    """
    key = "stage that others read" if is_read else "stage"
    if key not in process.kept:
        n_bytes = STAGE_BYTES
        while is_read and n_bytes > process.arena.own_segment()[1] // _PART:
            n_bytes //= 2
        if not is_read:
            process.kept[key] = np.empty(n_bytes, np.uint8)
        else:
            process.kept[key] = process.arena.allocate(n_bytes) if n_bytes >= _LEAST_BYTES else None
    return process.kept[key]


def pays_in_lanes(nodes: NodeMap, n_bytes: int) -> bool:
    """Whether ``n_bytes`` that cross to every node should be cut into lanes: on many nodes, only where lanes of two
    nodes are large, since every carrier sends a message to every node.  Local.
    """
    return n_bytes > 0 and (len(nodes.nodes) <= FEW_NODES or n_bytes >= _LARGE_LANE * len(nodes.node_of))


class Stage:
    """The stages of one node's members of a group, each of ``n_bytes``.

    ``addresses``: those of the near members' stages, as this process sees them.  ``together``: waits until all members
    of the node have come, after all that they have read and written.
    """

    def __init__(
        self,
        comm: Communicator,
        nodes: NodeMap,
        n_bytes: int,
        addresses: Mapping[int, int],
        together: Callable[[], None],
    ):
        self.comm, self.nodes, self.n_bytes, self.together = comm, nodes, n_bytes, together
        self._addresses = addresses

    @property
    def node(self) -> int:
        """The node of this process."""
        return self.nodes.node_of[self.comm.rank]

    def cells(self, member: int, start: int, n: int, dtype: np.dtype) -> np.ndarray:
        """``n`` cells from byte ``start`` of the stage of ``member``, of this node.  Local."""
        return kernels.bytes_at(self._addresses[member] + start, n * dtype.itemsize).view(dtype)
