"""The sizes by which arrays are cut and ways are chosen: for the code that moves arrays, and for its prices."""

from __future__ import annotations

from spmd_grid.kernels.protocol import slots as at

__all__ = [
    "CROSSING_ROUNDS",
    "CROSSING_ROUND_BYTES",
    "FEW_MEMBERS",
    "FEW_NODES",
    "FEW_SHARING",
    "MOST_CARRIED",
    "MOST_FOLDED",
    "MOST_RELAYED_BLOCKS",
    "MOST_RELAYED_BOX",
    "MOST_RELAYED_WHOLE",
    "RELAY_RING_BYTES",
    "RELAY_SLOT_BYTES",
    "STAGE_BYTES",
    "chunks_of_calls",
    "chunks_of_lane",
    "most_folded_whole",
    "most_in_lines",
]

# -- within a node -------------------------------------------------------------------------------------------------

RELAY_SLOT_BYTES = 1 << 18  # of a ring, which a step of a relay packs, for all receivers together
RELAY_RING_BYTES = 1 << 20  # which each member packs, slot after slot
MOST_RELAYED_BOX = 1 << 22  # bytes of boxes of reshardings; larger ones are read where they lie if they only move

# Bytes of the largest arrays that operations relay to fold them, whole or by the blocks of a reduce_scatter, between
# near processors: larger ones that can be read are faster to read.  Each member then folds a part.
MOST_RELAYED_WHOLE, MOST_RELAYED_BLOCKS = 1 << 19, 1 << 18

# If n members fold whole arrays, each of them fetches n - 1.  If they fold slices, each fetches as much as two arrays:
# its slice of the others' arrays, and the others' results.  But slices take two more rounds of words.
_WHOLE_FOR_TWO, _WHOLE_FOR_FOUR = 1 << 19, 1 << 16


def most_folded_whole(members: int) -> int:
    """The size in bytes up to which every member of a node folds whole arrays instead of a slice of each.  Plans only.

    >>> [most_folded_whole(members) >> 10 for members in (2, 3, 4, 5, 8, 16)]
    [512, 64, 64, 32, 12, 4]
    """
    return _WHOLE_FOR_TWO if members == 2 else _WHOLE_FOR_FOUR // max(1, members - 3)


# -- between nodes -------------------------------------------------------------------------------------------------

# In larger groups fewer, larger messages are faster than one from each member to each, and arrays do not travel with
# the headers: all members would get all of them.
FEW_MEMBERS = 8
_MOST_TOGETHER = 1 << 17

# No member carries more messages of headers than these.  More nodes are better met by MPI's own collectives: these take
# more rounds, but fewer messages.
MOST_CARRIED = 8

# Over more nodes and members it takes longer to move arrays node by node, and to list what all members of all nodes
# need, than MPI's own collectives, which are logarithmic, take.
FEW_NODES, FEW_SHARING = 8, 256

# A crossing is cut into up to eight rounds of at least this size, so that copies overlap with messages.
CROSSING_ROUND_BYTES, CROSSING_ROUNDS = 1 << 18, 8

# Bytes of the memory of each member in which what crosses waits: a message of a round takes much longer than it takes
# to begin one.  Half of it is for results of folds: larger arrays are folded piece by piece.
STAGE_BYTES = 1 << 23
MOST_FOLDED = STAGE_BYTES // 2

# The lane of a fold is cut into chunks: while one crosses, others are folded.  The first one is small.  Two members
# share a core where these sizes were measured, and each message takes tens of microseconds of it.
_ONE_CHUNK, _FIRST_CHUNK, _TWO_CHUNKS = 1 << 13, 3 << 12, 3 << 13
_LEAST_CHUNK, _MOST_CHUNK, _CHUNKS, _CHUNK_OF_CALLS = 1 << 16, 1 << 18, 16, 1 << 19


def chunks_of_lane(lane_bytes: int) -> list[int]:
    """The bytes of the chunks into which plans cut a lane of a fold between nodes.  Plans only.

    >>> [[n >> 10 for n in chunks_of_lane(lane << 10)] for lane in (8, 16, 64, 128)]
    [[8], [8, 8], [12, 52], [12, 58, 58]]
    """
    if lane_bytes <= _TWO_CHUNKS:
        half = lane_bytes // 2
        return [lane_bytes] if lane_bytes <= _ONE_CHUNK else [half, lane_bytes - half]
    rest, most = lane_bytes - _FIRST_CHUNK, min(max(lane_bytes // _CHUNKS, _LEAST_CHUNK), _MOST_CHUNK)
    count = -(-rest // most)
    return [_FIRST_CHUNK, *[rest * (i + 1) // count - rest * i // count for i in range(count)]]


def chunks_of_calls(lane_bytes: int) -> list[int]:
    """The bytes of the chunks of plain calls, which Python makes: up to 512 KiB each.  Plans only."""
    count = max(1, -(-lane_bytes // _CHUNK_OF_CALLS))
    return [lane_bytes * (i + 1) // count - lane_bytes * i // count for i in range(count)]


def most_in_lines(members: int) -> int:
    """The bytes of the largest array that travels with the headers of a group that spans nodes.  Plans only.

    >>> [most_in_lines(members) for members in (2, 5, 6, 8, 9)]
    [4096, 4096, 3640, 2048, 0]
    """
    return min(at.LINE_ARRAY_BYTES, _MOST_TOGETHER // members**2) if members <= FEW_MEMBERS else 0
