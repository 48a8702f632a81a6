"""Whether members of a node send small messages to other nodes side by side, or one of them for all."""

from __future__ import annotations

from spmd_grid.links.sizes import FEW_MEMBERS
from spmd_grid.transport.communicator import Communicator

__all__ = ["goes_direct"]


def goes_direct(comm: Communicator) -> bool:
    """Whether members send small arrays and their lines themselves; alike on all members.  Local.

    Where they share cores, one message for a pair of nodes is better: each costs the time of a core, and a wake-up.
    """
    return comm.times_well and comm.size <= FEW_MEMBERS
