"""The machine that processes run on, as models of links name it."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np

from spmd_grid.links.model import Machine
from spmd_grid.transport.communicator import Communicator

__all__ = ["machine_of"]


def machine_of(comm: Communicator, near: Sequence[int]) -> Machine:
    """The machine that the members of ``comm`` run on; ``near``: by member, its node.  Collective, alike on all."""
    name = platform.node().encode()[:64]
    sent, received = np.zeros(64, np.uint8), np.zeros(64 * comm.size, np.uint8)
    sent[: len(name)] = np.frombuffer(name, np.uint8)
    comm.all_gather(sent, received, [64] * comm.size)
    names = [bytes(received[64 * i : 64 * i + 64]).rstrip(b"\0").decode(errors="replace") for i in range(comm.size)]
    firsts = [near.index(node) for node in dict.fromkeys(near)]
    return Machine(tuple(names[first] for first in firsts), platform.machine(), comm.library)
