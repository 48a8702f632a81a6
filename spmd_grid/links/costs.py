"""The seconds of the operations by a model of the links: one formula per operation, by the bytes that cross its links.

A group of p members lies on H nodes, with k members on the fullest; g groups share the cable of that node.  With n
bytes of each member's array, and f = (H - 1) / H, the bytes that enter and that leave the busiest node of one group are

                      enter             leave
    all_gather        n p f             n p f          a node receives what its members lack, once, and shares it
    all_to_all        n k f             n k f          every member's share of what the others have
    broadcast         n                 n              each node receives it once, in pieces that the next node gets
                                                       meanwhile; 0 and n on two nodes
    gather            n p f             0              at root's node
    scatter           0                 n p f          likewise
    reduce_scatter    n f               n f            members of a node combine their arrays first
    all_reduce        2 n f             2 n f          a reduce_scatter, and an all_gather of its result
    reduce            2 n f             2 n f          likewise, with a gather
    shift             n e               n e            e members of a node, next to a member of another one in the
                                                       group's order

and each counts g times.  A node's processors handle what enters and what leaves: the bytes take as long as `each_way`
of them / `cable`, or the busiest process's part / `network_bandwidth` if that is longer.  Rounds of messages wait for
the latency each: one, but 2 for all_reduce and reduce, and ceil(log2 H) for a broadcast; in groups of more than 8
members, where MPI's collectives carry the rest, ceil(log2 p) for all_gather, gather and scatter.

Between up to 8 nodes of several members, the members of a node combine their arrays in chunks, one while others cross.
On two nodes one round is enough: the sums of both cross at once, and an all_reduce combines them on both.  On more, the
sums of a reduce are passed on from node to node, n bytes each way, in H - 1 rounds and one to root, with a chunk for
each of the rounds between.

In an operation between nodes of more than a few bytes Python's code takes `python_seconds`.  Wherever a process waits
for another node, for a round, a chunk or all messages, `wake_seconds` pass until it goes on.  Python makes each chunk
of a fold, and each of the rounds into which an all_gather or a broadcast is cut: it takes half of `call_seconds`, or a
fourth in a reduce, of whose chunks a process makes either a node's sum or that of the nodes.

Within nodes, members read one another's memory (`links/copies.py`).  Every operation begins with an exchange of
headers, in which arrays of a few bytes travel along: `agreement_seconds`.  Compiled code makes it, and polls meanwhile.
Where each process has a core, members send their own headers, and do not gather those of their node first.

Sources: that no byte needs to cross twice is the principle of Karonis et al., "Exploiting hierarchy in parallel
computer networks to optimize collective operation performance", 2000; the rounds and bytes of all_reduce and reduce are
those of Rabenseifner, "Optimization of collective reduction operations", 2004; those of the others, and of groups of
many members, of Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005.
"""

from __future__ import annotations

from math import ceil, inf

from spmd_grid.errors import ShardingError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.links import sizes
from spmd_grid.links.copies import copy_seconds, near_seconds
from spmd_grid.links.crowds import Crowd, crowd_of
from spmd_grid.links.model import LinkModel
from spmd_grid.transport.communicator import INLINE_BYTES

__all__ = [
    "COMPILED",
    "PRICED_OPERATIONS",
    "agreement_seconds",
    "body_bytes",
    "carried_seconds",
    "each_way",
    "far_seconds",
    "operation_seconds",
    "python_seconds",
]

PRICED_OPERATIONS = (
    "all_gather",
    "all_to_all",
    "broadcast",
    "gather",
    "scatter",
    "reduce_scatter",
    "all_reduce",
    "reduce",
    "shift",
)

# The time of a compiled call as a part of `call_seconds`: a 48th where ranks share cores, an 86th where they do not.
COMPILED = 1 / 64
# How many times as long Python's code takes between messages of processes that share a core: others, and the network,
# have had the core's caches meanwhile.
_COLD = 2


def far_seconds(links: LinkModel, by_process: float, by_node: float) -> float:
    """Seconds in which ``by_node`` bytes pass a node's cable each way, ``by_process`` of one process.  Plans only."""
    return max(by_process / links.network_bandwidth, by_node / links.cable)


def python_seconds(links: LinkModel) -> float:
    """Seconds of an operation's Python code between messages to other nodes.  Plans only."""
    return links.call_seconds * (1 if links.own_cores else _COLD)


def each_way(one_way: float, into: float, out_of: float) -> float:
    """The bytes that take as long if they go into a node, or a process, and as many go out of it.  Plans only.

    Bytes beside which none go the other way are faster by ``one_way``.

    >>> each_way(1.5, 6, 6), each_way(1.5, 6, 0), each_way(1.5, 6, 3)
    (6.0, 4.0, 5.0)
    """
    both = min(into, out_of)
    return both + (max(into, out_of) - both) / one_way


def agreement_seconds(links: LinkModel, crowd: Crowd) -> float:
    """Seconds in which the members of a group learn a few bytes of one another.  Plans only."""
    if crowd.members == 1:
        return COMPILED * links.call_seconds
    if crowd.nodes == 1:  # compiled code meets, and moves the arrays
        return links.node_latency + COMPILED * links.call_seconds
    messages = _carried_messages(links, crowd)
    if messages <= sizes.MOST_CARRIED:
        near = 0.0 if crowd.on_node == 1 else links.node_latency * (1 if _goes_direct(links, crowd) else 2)
        near += COMPILED * links.call_seconds
        return near + links.network_latency + (messages - 1) * links.message_seconds
    seconds = python_seconds(links) + links.wake_seconds
    return seconds + _log2(crowd.members) * links.network_latency


def operation_seconds(name: str, n_bytes: int, grid: Grid, axes: tuple[int, ...], links: LinkModel) -> float:
    """The seconds of an operation over ``axes`` on arrays of ``n_bytes`` each.

    Plans only.  For a broadcast or a scatter, ``n_bytes`` is the size of root's array.  Raises ShardingError.

    >>> links = LinkModel(node_size=4, cable_bandwidth=10e9)
    >>> [f"{1e3 * operation_seconds('all_reduce', 10**8, Grid((2, 4)), axes, links):.0f} ms" for axes in ((0, 1), (1,))]
    ['65 ms', '33 ms']
    """
    if name not in PRICED_OPERATIONS:
        raise ShardingError(f"links: operation is {name!r}; it must be one of {', '.join(PRICED_OPERATIONS)}")
    crowd = crowd_of(grid, axes, links)
    if n_bytes <= body_bytes(crowd):
        return carried_seconds(links, crowd, n_bytes, name not in ("broadcast", "scatter"))
    if name == "scatter":
        n_bytes = -(-n_bytes // crowd.members)
    seconds = agreement_seconds(links, crowd)
    if crowd.members == 1:
        return seconds + copy_seconds(links, n_bytes, 2 * n_bytes)
    seconds += _near_seconds(name, n_bytes, crowd, links)
    if crowd.nodes > 1:
        into, out_of = _crossing(name, n_bytes, crowd)
        seconds += python_seconds(links)
        folds = _is_folded(name, crowd)
        rounds, messages = _rounds(name, crowd)
        waits = _waits(name, n_bytes, max(into, out_of), crowd)
        if folds or name in ("all_gather", "broadcast"):
            messages = max(messages, waits)
        seconds += rounds * links.network_latency + messages * links.message_seconds
        calls = (0.25 if name == "reduce" else 0.5) if folds or waits > 1 else 0.0
        seconds += waits * (links.wake_seconds + calls * links.call_seconds)
        chunks = (rounds - 1) * _chunk_bytes(name, n_bytes, crowd) if folds and name == "reduce" else 0
        of_node, of_process = (each_way(w, into, out_of) + chunks for w in (links.one_way, links.process_one_way))
        seconds += far_seconds(links, of_process / _carriers(name, crowd), crowd.groups * of_node)
    return seconds


def carried_seconds(links: LinkModel, crowd: Crowd, n_bytes: int, by_all: bool = True) -> float:
    """Seconds of an operation whose arrays, of all members or of one alone, travel with the headers.  Plans only."""
    arrays = crowd.on_node * n_bytes if by_all else n_bytes
    others = crowd.nodes - 1
    of_process = _carried_messages(links, crowd) * (n_bytes if _goes_direct(links, crowd) else arrays)
    seconds = agreement_seconds(links, crowd) + far_seconds(links, of_process, crowd.groups * others * arrays)
    return seconds + copy_seconds(links, (crowd.members if by_all else 1) * n_bytes, 0)


def _goes_direct(links: LinkModel, crowd: Crowd) -> bool:
    """Whether members send their own headers and small arrays to other nodes, and not one of them for all."""
    alike = crowd.members == crowd.nodes * crowd.on_node
    return links.own_cores and alike and crowd.members <= sizes.FEW_MEMBERS


def _carried_messages(links: LinkModel, crowd: Crowd) -> int:
    """The messages with headers of a group's busiest member."""
    others = crowd.nodes - 1
    return others if _goes_direct(links, crowd) else -(-others // crowd.on_node)


def body_bytes(crowd: Crowd) -> int:
    """The bytes of the largest array that travels with the headers.  Plans only."""
    return INLINE_BYTES if crowd.nodes == 1 else max(INLINE_BYTES, sizes.most_in_lines(crowd.members))


def _crossing(name: str, n: int, crowd: Crowd) -> tuple[float, float]:
    """The bytes of one group that go into and out of its busiest node."""
    far = (crowd.nodes - 1) / crowd.nodes
    if name in ("gather", "scatter"):
        return (n * crowd.members * far, 0) if name == "gather" else (0, n * crowd.members * far)
    if name == "broadcast":
        return (0, n) if crowd.nodes == 2 else (n, n)
    if _is_folded(name, crowd) and name == "reduce":
        return (n, 0) if crowd.nodes == 2 else (n, n)
    each = {
        "all_gather": n * crowd.members * far,
        "all_to_all": n * crowd.on_node * far,
        "reduce_scatter": n * far,
        "shift": n * crowd.entries,
    }.get(name, 2 * n * far)
    return each, each


def _is_folded(name: str, crowd: Crowd) -> bool:
    """Whether the members of a node fold their arrays before these cross."""
    return name in ("all_reduce", "reduce", "reduce_scatter") and crowd.on_node > 1 and crowd.nodes <= sizes.FEW_NODES


def _chunk_bytes(name: str, n: int, crowd: Crowd) -> float:
    """The bytes of the largest chunks of all lanes of a node, which travel together."""
    return crowd.on_node * max(_chunks(name, n, crowd))


def _chunks(name: str, n: int, crowd: Crowd) -> list[int]:
    """The bytes of the chunks of a lane: of the part of each member, if it gets one."""
    lanes = crowd.members if name == "reduce_scatter" else crowd.on_node
    return sizes.chunks_of_calls(max(1, min(n, sizes.MOST_FOLDED) // lanes))


def _carriers(name: str, crowd: Crowd) -> int:
    """The members of a node that share the crossing between them."""
    return crowd.entries if name == "shift" else 1 if name in ("gather", "scatter") else crowd.on_node


def _rounds(name: str, crowd: Crowd) -> tuple[int, int]:
    """Rounds of messages between nodes that follow one another, and the messages of a process."""
    others = crowd.nodes - 1
    if _is_folded(name, crowd):
        if crowd.nodes == 2 or name == "reduce_scatter":
            return 1, others
        return (others + 1, others + 1) if name == "reduce" else (2, 2 * others)
    if name in ("all_reduce", "reduce"):
        return 2, 2 * others
    if name == "broadcast":
        return _log2(crowd.nodes), _log2(crowd.nodes)
    if name in ("all_gather", "gather", "scatter") and crowd.members > sizes.FEW_MEMBERS:
        return _log2(crowd.members), _log2(crowd.members)
    if name in ("all_to_all", "gather", "scatter") and crowd.members <= sizes.FEW_MEMBERS:
        return 1, crowd.members - crowd.on_node
    return 1, 1 if name == "shift" else others


def _waits(name: str, n: int, crossing: float, crowd: Crowd) -> int:
    """The number of waits for other nodes: for chunks of a fold, for rounds of a crossing, or for all messages."""
    if _is_folded(name, crowd):
        return ceil(n / sizes.MOST_FOLDED) * len(_chunks(name, n, crowd)) * (crowd.nodes - 1)
    if name in ("all_gather", "broadcast") and crowd.on_node > 1 and crowd.nodes <= sizes.FEW_NODES:
        return max(1, min(sizes.CROSSING_ROUNDS, int(crossing / crowd.on_node) // sizes.CROSSING_ROUND_BYTES))
    return 1


def _near_seconds(name: str, n: int, crowd: Crowd, links: LinkModel) -> float:
    """Seconds of copies and sums within nodes."""
    k, p, gathers = crowd.on_node, crowd.members, name in ("all_gather", "gather", "scatter")
    if crowd.nodes == 1 and _is_folded_in_place(name, n):
        return _folding_seconds(name, n, crowd, links)
    touched = inf if crowd.nodes > 1 else n * (p + 1) if gathers else 2 * n

    def near(n_bytes: float) -> float:
        return near_seconds(links, n_bytes, crowd.processes, touched)

    def memory(n_bytes: float) -> float:
        return copy_seconds(links, n_bytes, touched)

    waits = 2 * links.step if k > 1 else 0.0
    if gathers:  # what comes from other nodes lands where it is to lie, but for an all_gather, which shares it
        return waits + near(n * {"all_gather": p, "gather": k, "scatter": 1}[name])
    if crowd.nodes > 1 and _is_folded(name, crowd):
        return waits + _lane_seconds(name, n, crowd, links)
    if name in ("all_reduce", "reduce"):
        return waits + near(n * (k - 1) / k) + near(n) + memory(2 * n)
    if name == "reduce_scatter":
        return waits + near(n) + memory(2 * n / k)
    if name == "all_to_all" and crowd.nodes > 1:  # what comes from other nodes lands where it is to lie
        return waits + near(n * k / p)
    return waits + near(n) + memory(n)


def _lane_seconds(name: str, n: int, crowd: Crowd, links: LinkModel) -> float:
    """Seconds of copies and sums of a node in a fold over nodes.

    Arrays are read once, and results written once.  All else may stay in caches: the sums of a node, which are there
    before those of other nodes come, these, and results.
    """
    k = crowd.on_node
    touched = (1.5 if name == "reduce_scatter" else 3) * min(n, sizes.MOST_FOLDED) / k
    in_memory, from_others, own = (n, n / 2, n) if name == "reduce_scatter" else (n, (2 - 1 / k) * n, n)
    in_caches = near_seconds(links, from_others, crowd.processes, touched) + copy_seconds(links, own, touched)
    return copy_seconds(links, in_memory, inf) + in_caches


def _is_folded_in_place(name: str, n: int) -> bool:
    """Whether the members of a node fold arrays where they lie, each a slice or its block."""
    most = {"all_reduce": sizes.MOST_RELAYED_WHOLE, "reduce": sizes.MOST_RELAYED_WHOLE}
    return n > (most | {"reduce_scatter": sizes.MOST_RELAYED_BLOCKS}).get(name, n)


def _folding_seconds(name: str, n: int, crowd: Crowd, links: LinkModel) -> float:
    """Seconds of a fold on one node: each member folds its part of all arrays, and all copy the parts of an all_reduce.

    Python makes each of these two rounds, which takes it half of `call_seconds`.
    """
    k = crowd.members
    rounds, touched = (2, 2 * n) if name == "all_reduce" else (1, n * (1 + 1 / k))
    copies = near_seconds(links, rounds * n * (k - 1) / k, crowd.processes, touched) + copy_seconds(
        links, n / k, touched
    )
    return 2 * links.step + rounds * links.call_seconds / 2 + copies


def _log2(n: int) -> int:
    """The rounds in which n parties learn of one another."""
    return (n - 1).bit_length()
