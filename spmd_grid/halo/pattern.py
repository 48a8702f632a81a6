"""Which halo cells come from whom, along one line of devices; pure geometry.

Cells of a line are numbered globally, so a halo is an interval beside a device's own, and whose cells it holds
follows from intersecting intervals: thin and empty blocks, halos wider than a neighbour, and a device that is its own
periodic neighbour are no special cases.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["HaloPiece", "halo_pieces", "in_domain"]


class HaloPiece(NamedTuple):
    """Cells of one device's halo that one owner has.

    ``at``: where they start in the device's local extent (low halo first); ``start``, ``stop``: the cells, counted
    globally along the line, within the domain.
    """

    owner: int
    at: int
    start: int
    stop: int


def halo_pieces(starts: Sequence[int], device: int, low: int, high: int, periodic: bool) -> Iterator[HaloPiece]:
    """The pieces of ``device``'s low and high halo, in the order of the cells.

    Plans only.  ``starts``: the first cell of each device's block and, last, the extent of the line.

    >>> list(halo_pieces([0, 3, 4, 6], 0, 1, 3, periodic=False))
    [HaloPiece(owner=1, at=4, start=3, stop=4), HaloPiece(owner=2, at=5, start=4, stop=6)]
    >>> list(halo_pieces([0, 3, 4, 6], 0, 1, 0, periodic=True))
    [HaloPiece(owner=2, at=0, start=5, stop=6)]
    """
    first, last, extent = starts[device], starts[device + 1], starts[-1]
    origin = first - low
    for begin, end in ((first - low, first), (last, last + high)):
        if not periodic:
            begin, end = max(begin, 0), min(end, extent)
        while begin < end and extent > 0:
            wrapped = begin % extent
            owner = bisect_right(starts, wrapped, 0, len(starts) - 1) - 1
            n = min(end - begin, starts[owner + 1] - wrapped)
            yield HaloPiece(owner, begin - origin, wrapped, wrapped + n)
            begin += n


def in_domain(starts: Sequence[int], device: int, low: int, high: int, periodic: bool) -> tuple[int, int]:
    """The (start, stop) part of ``device``'s local extent, halos included, that lies in the domain.

    Plans only.

    >>> in_domain([0, 3, 4, 6], 0, 1, 2, periodic=False)
    (1, 6)
    """
    first, last, extent = starts[device], starts[device + 1], starts[-1]
    if periodic and extent > 0:
        return 0, low + last - first + high
    origin = first - low
    return max(origin, 0) - origin, min(last + high, extent) - origin
