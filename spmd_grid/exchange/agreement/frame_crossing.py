"""Frames that cross between nodes: one message each way for each pair of nodes.

For each pair of nodes one member of either, its *carrier*, sends the message, and receives the other's into memory that
all members of its node read.  With two nodes of two members:

    0 --\\                   /--> 2
         meet -> 1 <=> 2 -> all
    1 --/                   \\--> 3      and the same the other way, at the same time

A message has the frames of all members of its node, the sizes of their bodies, and the bodies, each from a multiple of
16 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.transport.communicator import FRAME_BYTES, Communicator

__all__ = ["FrameCrossing", "frames_cross_once", "inbox_bytes"]

# No member carries more messages than these.  More nodes are better met by MPI's own collectives: these take more
# rounds, but fewer messages.
_MOST_CARRIED = 8

_ALIGNED, _SIZE_BYTES = 16, 8


def frames_cross_once(nodes: NodeMap) -> bool:
    """Whether one message for each pair of nodes is fewer than otherwise, and no member has many to carry.  Local."""
    fewest = min(map(len, nodes.nodes))
    return nodes.is_shared and len(nodes.nodes) - 1 <= _MOST_CARRIED * fewest


def inbox_bytes(nodes: NodeMap, member: int, body_bytes: int) -> int:
    """The size of the memory into which ``member`` receives the frames of other nodes.  Local."""
    return sum(_message_bytes(nodes, node, body_bytes) for node in _carried(nodes, member))


def _carrier(nodes: NodeMap, node: int, other: int) -> int:
    """The member of ``node`` that carries what goes to and comes from node ``other``."""
    members = nodes.nodes[node]
    return members[other % len(members)]


def _carried(nodes: NodeMap, member: int) -> list[int]:
    """The nodes with which ``member`` exchanges messages."""
    node = nodes.node_of[member]
    return [other for other in range(len(nodes.nodes)) if other != node and _carrier(nodes, node, other) == member]


def _head_bytes(n_members: int) -> int:
    """The bytes of a message before its bodies."""
    return n_members * FRAME_BYTES + -(-n_members * _SIZE_BYTES // _ALIGNED) * _ALIGNED


def _message_bytes(nodes: NodeMap, node: int, body_bytes: int) -> int:
    """The size of the largest message from ``node``."""
    n_members = len(nodes.nodes[node])
    return _head_bytes(n_members) + n_members * -(-body_bytes // _ALIGNED) * _ALIGNED


class FrameCrossing:
    """The messages between this process's node and all others.

    ``inboxes``: by member of the node, the address of the memory of `inbox_bytes` into which it receives.
    """

    def __init__(self, comm: Communicator, nodes: NodeMap, inboxes: Mapping[int, int], body_bytes: int):
        self._comm, me = comm, comm.rank
        self._near = nodes.nodes[nodes.node_of[me]]
        self._outgoing = np.zeros(_message_bytes(nodes, nodes.node_of[me], body_bytes), np.uint8)
        self._sends_to: list[int] = []
        self._receives: list[tuple[int, np.ndarray]] = []
        self._inbox: list[tuple[list[int], np.ndarray, np.ndarray, np.ndarray]] = []
        for carrier in self._near:
            start = inboxes[carrier]
            for node in _carried(nodes, carrier):
                members, n_bytes = nodes.nodes[node], _message_bytes(nodes, node, body_bytes)
                message = kernels.bytes_at(start, n_bytes)
                start += n_bytes
                self._inbox.append((list(members), *_parts(message, len(members))))
                if carrier == me:
                    partner = _carrier(nodes, node, nodes.node_of[me])
                    self._sends_to.append(partner)
                    self._receives.append((partner, message))
        _, self._frames, self._sizes, _ = (self._near, *_parts(self._outgoing, len(self._near)))

    def carry(self, frames: np.ndarray, bodies: Sequence[np.ndarray]) -> None:
        """Sends the ``frames`` of this node's members, and their ``bodies``, to the nodes that this process serves.

        Collective; receives theirs as well, which the members of the node may read once all carriers have come.
        """
        sends: list[tuple[int, np.ndarray]] = []
        if self._sends_to:
            self._frames[:] = frames
            start = _head_bytes(len(self._near))
            for i, body in enumerate(bodies):
                n = self._sizes[i] = len(body)
                if n:
                    self._outgoing[start : start + n] = body
                    start += -(-n // _ALIGNED) * _ALIGNED
            message = self._outgoing[:start]
            sends = [(member, message) for member in self._sends_to]
        self._comm.swap_messages(sends, self._receives)

    def take(self, frames: np.ndarray, bodies: Sequence[np.ndarray]) -> None:
        """Copies what has come from other nodes into the ``frames`` and ``bodies`` of all members.  Local."""
        for members, come, sizes, rest in self._inbox:
            frames[members] = come
            if sizes.any():
                start = 0
                for member, n in zip(members, sizes.tolist(), strict=True):
                    if n:
                        bodies[member][:n] = rest[start : start + n]
                        start += -(-n // _ALIGNED) * _ALIGNED


def _parts(message: np.ndarray, n_members: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The frames, a row for each member, the sizes of bodies, and the bodies of a message."""
    frame_bytes = n_members * FRAME_BYTES
    sizes = message[frame_bytes : frame_bytes + n_members * _SIZE_BYTES].view(np.int64)
    return message[:frame_bytes].reshape(n_members, FRAME_BYTES), sizes, message[_head_bytes(n_members) :]
