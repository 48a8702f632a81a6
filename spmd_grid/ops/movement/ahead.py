"""Movements without a meeting, in groups that span nodes: all members know what each sends once a plan is made.

What goes from one node to another is one message, as in meetings, where that is possible::

    0 --> line \\                    / line --> 2
                0 -- message --> 2 -
    1 --> line /                    \\ line --> 3

Where each member has a core of its own, members send what others need themselves, side by side; and so do bound
reshardings where that takes fewer messages::

    0 -- message --> 2 --> line --> 3
    1 -- message --> 3 --> line --> 2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid.exchange.nodes.node_map import NodeMap
from spmd_grid.exchange.transfer.transfer import Receive, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.kernels import BoxRow
from spmd_grid.kernels.ahead import slots as ahead_at
from spmd_grid.ops.loops.work import LoopWork, copies_of
from spmd_grid.ops.movement.items import Item
from spmd_grid.ops.movement.pieces import Pieces
from spmd_grid.ops.movement.posted import posted_by
from spmd_grid.typing import Shape

__all__ = [
    "AheadMessage",
    "AheadWork",
    "Need",
    "ahead_messages",
    "ahead_work",
    "direct_messages",
]

_ALIGNED = 16  # bytes between arrays in a line


class AheadMessage(NamedTuple):
    """A message between nodes: its items one after the other; ``readers`` need some of them.

    ``passed_to``: where the receiver copies it in its line, bytes from the start, for other readers; 0: it posts it in
    place of an array of its own.
    """

    sender: int
    receiver: int
    items: tuple[Item, ...]
    readers: frozenset[int]
    passed_to: int = 0

    @property
    def cells(self) -> int:
        """Number of cells."""
        return sum(item.box.size for item in self.items)

    def start(self, item: Item) -> int:
        """The number of the item's first cell."""
        before = self.items[: self.items.index(item)]
        return sum(each.box.size for each in before)


class Outgoing(NamedTuple):
    """A message to ``peer``: ``packs`` are rows that copy to it, by source."""

    peer: int
    n_bytes: int = 0
    packs: Sequence[tuple[int, list[BoxRow]]] = ()


class Incoming(NamedTuple):
    """A message from ``peer`` with arrays of ``sources``; ``passed_to``: as of an `AheadMessage`.

    ``opens_at``: of a piece that opens a run, the byte of the memory for pieces that it comes to.
    """

    peer: int
    n_bytes: int = 0
    sources: Sequence[int] = ()
    passed_to: int = 0
    opens_at: int | None = None


class Need(NamedTuple):
    """The array of ``source`` in the line of ``member``; ``passed_to``: where, if it has come in a message.

    ``starts_at``: the first byte of the array in the line.
    """

    member: int
    source: int
    passed_to: int = 0
    starts_at: int = 0


class AheadWork(NamedTuple):
    """This member's part of a run.

    ``posts``: what the others of the node read in this member's line, of ``post_bytes``, from byte ``post_from`` of its
    array on, or packed by ``post_rows``.  ``carries``: the lines
    that go to messages.  ``needs``: the lines that this member reads itself.  ``work``: the copies to the
    result.  ``pieces``: in which large arrays travel; messages then only open the run.
    """

    sends: Sequence[Outgoing]
    receives: Sequence[Incoming]
    posts: int
    post_bytes: int
    carries: Sequence[Need]
    needs: Sequence[Need]
    work: LoopWork
    pieces: Pieces | None = None
    post_from: int = 0
    post_rows: Sequence[BoxRow] = ()

    @staticmethod
    def by_pieces(pieces: Pieces, me: int, read_bytes: int, constant: np.ndarray | None = None) -> AheadWork:
        """The work of member ``me`` in a run in pieces; the others of the node read ``read_bytes`` here."""
        posts = ahead_at.OWN_ARRAY if read_bytes else ahead_at.NO_ARRAY
        sends = [Outgoing(peer) for peer in pieces.receivers if peer not in pieces.opens]
        openings = pieces.openings
        receives = [Incoming(peer) for peer in pieces.senders if peer not in openings]
        receives += [Incoming(peer, each.n_bytes, opens_at=each.at) for peer, each in openings.items()]
        needs = [Need(each, each) for each in pieces.read_by(me)]
        return AheadWork(sends, receives, posts, read_bytes, (), needs, LoopWork(constant=constant), pieces)


def ahead_messages(received: Sequence[Sequence[Item]], nodes: NodeMap, most_cells: int) -> list[AheadMessage]:
    """The messages between nodes, alike on all members; ``received``: what each of these needs.

    Several items of one pair of nodes go in one message between the first members of both, if it has at most
    ``most_cells``, and if the receiver has nothing else to post for its node.  If each member sends one item to one
    other member, it sends the item itself, and waits for no member of its node.
    """
    items: dict[tuple[int, int], dict[Item, list[int]]] = {}
    posting = set()  # members whose own arrays others of their node need
    for member, needed in enumerate(received):
        for item in needed:
            here, there = nodes.node_of[item.source], nodes.node_of[member]
            if here != there:
                items.setdefault((here, there), {}).setdefault(item, []).append(member)
            elif item.source != member:
                posting.add(item.source)
    for (here, _), these in items.items():
        sources = {item.source for item in these}
        if len(sources) > 1:
            posting |= sources - {nodes.nodes[here][0]}
    messages = []
    for (here, there), these in items.items():
        sources = {item.source for item in these}
        readers = {member for members in these.values() for member in members}
        sender = min(sources) if len(sources) == 1 else nodes.nodes[here][0]
        receiver = min(readers) if len(readers) == 1 else nodes.nodes[there][0]
        message = AheadMessage(sender, receiver, tuple(these), frozenset(readers))
        is_short = len(readers) == 1 or message.cells <= most_cells
        in_pairs = 1 < len(these) == len(sources) == len(readers) and all(len(each) == 1 for each in these.values())
        if is_short and not in_pairs and (len(readers) == 1 or receiver not in posting):
            messages.append(message)
            if len(readers) > 1:
                posting.add(receiver)
            continue
        for item, members in these.items():
            messages += [AheadMessage(item.source, member, (item,), frozenset([member])) for member in members]
    return messages


def direct_messages(
    shapes: Sequence[Shape | None], received: Sequence[Sequence[Item]], nodes: NodeMap, dtype: np.dtype
) -> list[AheadMessage] | None:
    """The messages between nodes if each member sends what others need of its array; as `ahead_messages`.

    What several members of a node need goes to one of them, who passes it on, another one for each member that sends.
    Where lines have no space for that, all go to those that need them; None if several need the same.
    """
    readers: dict[tuple[int, int], dict[Item, set[int]]] = {}  # by sources and nodes
    for member, needed in enumerate(received):
        for item in needed:
            if nodes.node_of[item.source] != nodes.node_of[member]:
                readers.setdefault((item.source, nodes.node_of[member]), {}).setdefault(item, set()).add(member)
    ends = [ahead_at.LINE_ARRAY + _aligned(_bytes(shape, dtype)) for shape in shapes]  # of what is in lines, by member
    messages = []
    for (source, _), items in sorted(readers.items()):
        members, passed_to = sorted(set().union(*items.values())), 0
        receiver = members[nodes.nodes[nodes.node_of[source]].index(source) % len(members)]
        if len(members) > 1:
            passed_to = ends[receiver]
            ends[receiver] += _aligned(sum(item.box.size for item in items) * dtype.itemsize)
        messages.append(AheadMessage(source, receiver, tuple(items), frozenset(members), passed_to))
    if max(ends) <= ahead_at.LINE_ARRAY + ahead_at.LINE_POST_BYTES:
        return messages
    pairs = [(item, members) for items in readers.values() for item, members in items.items()]
    if any(len(members) > 1 for _, members in pairs):
        return None
    return [AheadMessage(item.source, min(members), (item,), frozenset(members)) for item, members in pairs]


def ahead_work(
    transfer: Transfer,
    shapes: Sequence[Shape | None],
    received: Sequence[Sequence[Item]],
    messages: Sequence[AheadMessage],
    work: LoopWork,
    dtype: np.dtype,
    nodes: NodeMap,
) -> AheadWork:
    """The part of this member in ``transfer`` of arrays of these shapes; ``work`` copies from whole arrays.  Local."""
    me, size = transfer.rank, dtype.itemsize
    near = nodes.nodes[nodes.node_of[me]]
    sends: list[Outgoing] = []
    receives: list[Incoming] = []
    carries, needs = [], []
    packed: dict[int, list[BoxRow]] = {}
    carried = [item for message in messages for item in message.items if item.source != message.sender]
    posted = posted_by(shapes, received, dtype, nodes, carried)
    posts, post_from, post_bytes, copies = ahead_at.NO_ARRAY, posted[me].first, posted[me].n_bytes, list(work.copies)
    if post_bytes:
        posts = ahead_at.OWN_ARRAY
    for message in messages:
        sources = [item.source for item in message.items]
        if message.sender == me:
            packs = [(item.source, _packed(shapes[item.source], item, message, dtype)) for item in message.items]
            sends.append(Outgoing(message.receiver, message.cells * size, packs))
            carries += [source for source in sources if source != me and source not in carries]
        if message.receiver == me:
            receives.append(Incoming(message.sender, message.cells * size, sources, message.passed_to))
            if message.readers != {me} and not message.passed_to:
                posts, post_from, post_bytes = ahead_at.RECEIVED, 0, message.cells * size
    for receive in transfer.receives:
        source = receive.peer
        if source in near:
            if source != me:
                needs.append(Need(source, source, starts_at=posted[source].first))
                starts = posted[source].starts
                if starts is not None and receive.source_box.size:
                    packed.setdefault(source, [])
                    packed[source] += _from_packed(receive, starts[receive.source_box], transfer, dtype)
            continue
        item = Item(source, receive.source_box)
        message = next(each for each in messages if me in each.readers and item in each.items)
        if message.receiver != me:
            needs.append(Need(message.receiver, source, message.passed_to))
        copies[source] = _from_packed(receive, message.start(item) * size, transfer, dtype)
    for source, rows in packed.items():
        copies[source] = rows
    shape = shapes[me]
    post_rows = () if shape is None else posted[me].rows(shape, dtype)
    lines = [Need(source, source, starts_at=posted[source].first) for source in carries]
    work = work._replace(copies=copies)
    return AheadWork(sends, receives, posts, post_bytes, lines, needs, work, None, post_from, post_rows)


def _from_packed(receive: Receive, start: int, transfer: Transfer, dtype: np.dtype) -> list[BoxRow]:
    """The rows that copy a box that lies packed, from byte ``start`` on, to the result."""
    assert transfer.target_shape is not None  # it receives
    whole = Box.from_shape(receive.source_box.shape)
    return copies_of(whole.shape, whole, transfer.target_shape, receive.box, dtype, 0, start)


def _bytes(shape: Shape | None, dtype: np.dtype) -> int:
    return 0 if shape is None else Box.from_shape(shape).size * dtype.itemsize


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // _ALIGNED) * _ALIGNED


def _packed(shape: Shape | None, item: Item, message: AheadMessage, dtype: np.dtype) -> list[BoxRow]:
    """The rows that copy an item to the cells of a message."""
    assert shape is not None  # it is sent
    whole = Box.from_shape(item.box.shape)
    return copies_of(shape, item.box, whole.shape, whole, dtype, message.start(item) * dtype.itemsize)
