"""The links of running processes as far as they are known without measuring: who shares a node, on which machine."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np

from spmd_grid.links.model import LinkModel, Machine
from spmd_grid.transport.communicator import Communicator, Process

__all__ = ["known_links", "machine_of"]

_CALL_SECONDS = 1e-5  # an estimate, as are all figures of the default model: of Python's part of an operation


def known_links(process: Process) -> LinkModel:
    """The default model for the processes of a program: their nodes, each with one cable if there are several.

    Local; the same on all processes.  Within a node, waits are so short that Python's part of several steps counts.
    """
    found = process.kept.get("links")
    if found is None or found[0] != process.nodes:
        model = LinkModel(nodes=process.nodes, call_seconds=_CALL_SECONDS)
        if len(set(process.nodes)) > 1:
            model = LinkModel(nodes=process.nodes, cable_bandwidth=LinkModel.network_bandwidth)
        found = process.kept["links"] = process.nodes, model
    return found[1]


def machine_of(comm: Communicator, near: Sequence[int]) -> Machine:
    """The machine that the members of ``comm`` run on; ``near``: by member, its node.  Collective, alike on all."""
    name = platform.node().encode()[:64]
    sent, received = np.zeros(64, np.uint8), np.zeros(64 * comm.size, np.uint8)
    sent[: len(name)] = np.frombuffer(name, np.uint8)
    comm.all_gather(sent, received, [64] * comm.size)
    names = [bytes(received[64 * i : 64 * i + 64]).rstrip(b"\0").decode(errors="replace") for i in range(comm.size)]
    firsts = [near.index(node) for node in dict.fromkeys(near)]
    return Machine(tuple(names[first] for first in firsts), platform.machine(), comm.library)
