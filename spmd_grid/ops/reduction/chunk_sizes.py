"""The chunks into which a lane of a reduction between nodes is cut: the share of each of them, in any unit.

While a chunk is folded others travel, so small ones hide more of what the first and the last one wait for.  But each
message costs time of the processor: where ranks share cores, few and larger ones are faster.
"""

from __future__ import annotations

from spmd_grid.links.sizes import LEAST_CHUNK, MOST_CHUNK

__all__ = ["equal_shares", "shares_of_return"]

# Bytes of chunks of lanes whose results come back: the first one, so that results soon begin to; the last one, whose
# arrays cross before that; and those between.
_FIRST, _BETWEEN, _LAST = 12 << 10, 24 << 10, 22 << 10
_MOST_BETWEEN = 32  # chunks, unless they are of MOST_CHUNK bytes


def equal_shares(lane_bytes: int, chunks: int, least: int = LEAST_CHUNK) -> list[int]:
    """Up to ``chunks`` equal shares, unless they are large; of ``least`` bytes.

    >>> equal_shares(1 << 16, 8), len(equal_shares(1 << 24, 8))
    ([1, 1, 1, 1], 64)
    """
    most = min(max(lane_bytes // chunks, least), MOST_CHUNK)
    return [1] * -(-lane_bytes // most)


def shares_of_return(lane_bytes: int) -> list[int] | None:
    """The shares of a lane whose results come back to where its fold began; None if it is short.

    >>> [share >> 10 for share in shares_of_return(1 << 17)]
    [12, 23, 23, 23, 23, 22]
    """
    between = lane_bytes - _FIRST - _LAST
    if between < _LAST:
        return None
    most = min(max(between // _MOST_BETWEEN, _BETWEEN), MOST_CHUNK)
    count = -(-between // most)
    return [_FIRST, *[between // count] * count, max(_LAST, most // 2)]
