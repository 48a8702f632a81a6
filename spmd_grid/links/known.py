"""The links of running processes as far as they are known without measuring: who shares a node."""

from __future__ import annotations

from spmd_grid.links.model import LinkModel
from spmd_grid.transport.communicator import Process

__all__ = ["known_links"]


def known_links(process: Process) -> LinkModel:
    """The default model for the processes of a program: their nodes, each with one cable, if there are several nodes.

    Local; the same on all processes.
    """
    found = process.kept.get("links")
    if found is None or found[0] != process.nodes:
        model = LinkModel()
        if len(set(process.nodes)) > 1:
            model = LinkModel(nodes=process.nodes, cable_bandwidth=LinkModel.network_bandwidth)
        found = process.kept["links"] = process.nodes, model
    return found[1]
