"""Messages of this process that were never received, found in the counts of all processes at the end of the program.

Each process compares its own sends with the counts that their receivers left, so a process that has lost a message
knows the line that sent it.  Messages of one pair and group are received in the order in which they were sent: the last
ones are lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from spmd_grid.transport.lost_messages import lost_text
from spmd_grid.transport.mpi.group import Group
from spmd_grid.transport.mpi.liveness.departure import Departed, Departure

__all__ = ["lost_messages"]


def lost_messages(own: Departure, departed: Departed, groups: Sequence[Group]) -> str:
    """A sentence about messages to one process that it never received; empty if there are none.  Local.

    A message that meets a receive which was started and never waited for counts as received.
    """
    for group in groups:
        for member, process in enumerate(group.processes):
            end = own if member == group.rank else departed.get(process)
            if group.sent[member] == 0 or end is None:
                continue
            nothing = [0] * group.size
            taken = [counts.get(group.processes, nothing)[group.rank] for counts in (end.received, end.asked)]
            lost = group.sent[member] - sum(taken)
            if lost > 0:
                known = tuple(group.last_sent.get(member, ()))[-lost:]
                return lost_text(own.label, end.label, lost, known)
    return ""
