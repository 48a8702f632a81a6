"""The chunks into which a lane of a reduction between nodes is cut: the share of each of them, in any unit.

While a chunk is folded others travel, so small ones hide more of what the first and the last one wait for.  But each
message costs time of a core.
"""

from __future__ import annotations

from math import isqrt

from spmd_grid.links.sizes import LEAST_CHUNK, MOST_CHUNK

__all__ = ["equal_shares", "shares_on_own_cores", "shares_on_shared_cores"]

# Where ranks share cores, each chunk takes some time of a core, and the end waits for the way of the last one.  The sum
# of both is least if the size of chunks grows as the square root of the lane's.  Bytes of the lane that would be one
# chunk by this rule, and the least bytes of a chunk.
_ALONE, _LEAST = 5 << 10, 10 << 10
# Bytes of two chunks of a lane whose results come back: the first one, so that results soon begin to, and at least the
# last one, whose arrays cross before that.
_FIRST, _LAST = 12 << 10, 22 << 10

# With a core for each rank: chunks of a lane, and the least bytes of one.  It is a quarter of a packet longer than one,
# where frames have 9,000 bytes: a system hands out a packet that is not full without waiting for the next one.
_CHUNKS, _PACKET = 30, 5 * (69 << 5)


def equal_shares(lane_bytes: int, chunks: int, least: int = LEAST_CHUNK) -> list[int]:
    """Up to ``chunks`` equal shares, unless they are large; of ``least`` bytes.

    >>> equal_shares(1 << 16, 8), len(equal_shares(1 << 24, 8))
    ([1, 1, 1, 1], 64)
    """
    most = min(max(lane_bytes // chunks, least), MOST_CHUNK)
    return [1] * -(-lane_bytes // most)


def shares_on_own_cores(lane_bytes: int) -> list[int]:
    """The shares of a lane where each rank has a core."""
    return equal_shares(lane_bytes, _CHUNKS, _PACKET)


def shares_on_shared_cores(lane_bytes: int, returns: bool) -> list[int]:
    """The shares of a lane where ranks share cores; ``returns``: results come back to where its fold began.

    >>> len(shares_on_shared_cores(1 << 17, returns=False))
    6
    >>> [share >> 10 for share in shares_on_shared_cores(1 << 17, returns=True)]
    [12, 23, 23, 23, 23, 22]
    """
    most = min(max(isqrt(lane_bytes * _ALONE), _LEAST), MOST_CHUNK)
    between = lane_bytes - _FIRST - _LAST
    if not returns or between < _LAST:
        return [1] * -(-lane_bytes // most)
    count = -(-between // most)
    return [_FIRST, *[between // count] * count, max(_LAST, most // 2)]
