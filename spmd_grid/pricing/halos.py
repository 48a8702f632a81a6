"""The seconds of a halo exchange by a model of the links.

All messages of an exchange are under way at once.  It waits for the latency once, every message to another node keeps
its process busy for `message_seconds`, and the bytes take as long as the busiest process needs, or the busiest cable,
which the processes of a node share.  Halo cells of processes of the same node are copied out of their memory while
messages travel; cells that cross are packed and unpacked besides.  No headers are exchanged: plans of halos are agreed
on once.

The model looks at every device of four nodes, the first, the last, and two between, up to 1,024 devices.  So it takes
no longer for a million devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import NamedTuple

from spmd_grid.halo.geometry.pattern import HaloPattern
from spmd_grid.links.copies import copy_seconds, near_seconds
from spmd_grid.links.costs import far_seconds
from spmd_grid.links.model import LinkModel
from spmd_grid.reshard.planner.node_traffic import devices_of_nodes

__all__ = ["HaloBytes", "halo_bytes", "halo_seconds"]

_MOST_DEVICES = 1024


class HaloBytes(NamedTuple):
    """Bytes of a process's halos, the larger of those that it gets and gives: on its own node, and across nodes.

    ``far_of_node``: the latter of all processes of a node; ``messages``: those of a process to or from other nodes.
    """

    near: int
    far: int
    far_of_node: int
    messages: int
    on_node: int


def halo_bytes(pattern: HaloPattern, itemsize: int, links: LinkModel) -> HaloBytes:
    """The bytes of an exchange, by where they go, of the busiest process and the busiest node.  Plans only."""
    grid = pattern.layout.grid

    def takes(device: int) -> Iterable[tuple[int, int]]:
        return [(take.owner, take.box.size) for take in pattern.takes(grid.multi_index(device))]

    def gives(device: int) -> Iterable[tuple[int, int]]:
        return [(give.taker, prod(give.cells.shape)) for give in pattern.gives(grid.multi_index(device))]

    near = far = far_of_node = messages = most = 0
    for devices in devices_of_nodes(grid, links):
        most = max(most, len(devices))
        looked_at = devices[:: max(1, -(-len(devices) // _MOST_DEVICES))]
        for partners in (takes, gives):
            together = 0
            for device in looked_at:
                own, others, n = _near_and_far(device, partners, pattern, links)
                near, far, messages = max(near, own), max(far, others), max(messages, n)
                together += others
            far_of_node = max(far_of_node, together * len(devices) // len(looked_at))
    return HaloBytes(near * itemsize, far * itemsize, far_of_node * itemsize, messages, most)


def _near_and_far(
    device: int, partners: Callable[[int], Iterable[tuple[int, int]]], pattern: HaloPattern, links: LinkModel
) -> tuple[int, int, int]:
    """Cells that a device shares with its own node and with others, and the number of its partners on others."""
    grid = pattern.layout.grid
    node = links.node_of(grid.process(device))
    near = far = 0
    met = set()
    for other, cells in partners(device):
        if links.node_of(grid.process(other)) == node:
            near += cells
        else:
            far += cells
            met.add(other)
    return near, far, len(met)


def halo_seconds(pattern: HaloPattern, itemsize: int, links: LinkModel, fields: int = 1) -> float:
    """The seconds of an exchange of the halos of several fields, which share their messages.  Plans only.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.layout import Layout
    >>> from spmd_grid.grid.sharding import Sharding
    >>> layout = Layout(Sharding(Grid((64, 64, 128)), [[0], [1], [2]], halo_sizes=[1] * 6), (8192, 8192, 8192))
    >>> links = LinkModel(node_size=128, cable_bandwidth=12.5e9)
    >>> [f"{1e3 * halo_seconds(HaloPattern(layout), 8, each):.2f} ms" for each in (links, LinkModel(node_size=128))]
    ['2.86 ms', '0.11 ms']
    """
    found = halo_bytes(pattern, itemsize * fields, links)
    near = far = packed = 0.0
    touched = 2 * (found.near + found.far)
    if found.near:
        near = links.node_latency + near_seconds(links, found.near, found.on_node, touched)
    if found.far:
        far = links.network_latency + (found.messages - 1) * links.message_seconds  # a first is in the latency
        far += far_seconds(links, found.far, found.far_of_node)
        packed = copy_seconds(links, 2 * found.far, touched)
    return max(near, far) + packed
