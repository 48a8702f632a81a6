"""Whether members of a node send small messages to other nodes side by side, or one of them for all."""

from __future__ import annotations

from spmd_grid.links.sizes import FEW_MEMBERS
from spmd_grid.transport.communicator import Communicator

__all__ = ["goes_direct"]


# Bytes of the largest arrays that are sent whole, though each member needs another part of them.
_MOST_WHOLE = 1 << 10


def goes_direct(comm: Communicator, in_parts: int = 0) -> bool:
    """Whether members send small arrays and their lines themselves; alike on all members.  Local.

    Where they share cores, one message for a pair of nodes is better: each costs the time of a core, and a wake-up.
    But that one has whole arrays; ``in_parts``: the bytes of such of which each member needs another part, else 0.
    """
    return comm.size <= FEW_MEMBERS and (comm.times_well or in_parts > _MOST_WHOLE)
