"""The cells that devices hold of what they need, summed over all devices, and the extremes.

Dimensions that share no digit of the devices' numbers are independent: each *component* of linked ones is searched for
itself, and the results are multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from spmd_grid.reshard.geometry.cuts import CutDimension
from spmd_grid.reshard.volume.aligned_overlaps import are_aligned, sum_aligned
from spmd_grid.reshard.volume.component_search import ComponentSearch
from spmd_grid.reshard.volume.descent import Descent
from spmd_grid.reshard.volume.digits import SOURCE, Digits

__all__ = ["Found", "Points", "search"]

Points: TypeAlias = list[tuple[int, int]]


class Found(NamedTuple):
    """Overlaps of the boxes S that devices hold and T that they need.

    ``overlap``: the cells of all T n S.  ``points``: per side (|S| as weighed or |T|, |T n S|) that no other beats.
    ``exact``: whether there are such devices.
    """

    overlap: int
    points: tuple[Points, Points]
    exact: bool


def search(
    source_cuts: Sequence[CutDimension],
    target_cuts: Sequence[CutDimension],
    digits: Digits,
    weigh: Sequence[Callable[[int], int]],
) -> Found:
    """Sum and maximise the overlaps of the source's and the target's boxes over the devices that ``digits`` number.

    Local.  ``weigh``: by dimension, the weight of a source's part of a given extent.
    """
    lines = [
        [Descent(cut, of_axis) for cut in cuts] for cuts, of_axis in zip((source_cuts, target_cuts), digits.of_axis)
    ]
    overlap = 1
    points: tuple[Points, Points] = [(1, 1)], [(1, 1)]
    for dims, names in _components(lines, len(digits.sizes)):
        summed, least = _component(dims, names, lines, digits, weigh)
        overlap *= summed
        held, needed = (
            _unbeaten((a * c, b * d) for a, b in before for c, d in found.items())
            for before, found in zip(points, least)
        )
        points = held, needed
    return Found(overlap, points, True)


def _component(
    dims: list[int],
    names: set[int],
    lines: Sequence[Sequence[Descent]],
    digits: Digits,
    weigh: Sequence[Callable[[int], int]],
) -> tuple[int, tuple[dict[int, int], ...]]:
    """The sum of the overlaps of linked dimensions, and per side the least overlap by size."""
    if len(dims) == 1:
        (dim,) = dims
        source, target = (side[dim] for side in lines)
        if are_aligned(source, target, digits):
            return sum_aligned(source.cut, target.cut, weigh[dim])
    found = ComponentSearch(dims, names, lines, digits, weigh)
    return found.overlap, found.found


def _components(lines: Sequence[Sequence[Descent]], n_digits: int) -> list[tuple[list[int], set[int]]]:
    """The groups of dimensions and digits that are linked; a digit that cuts no dimension is a group by itself."""
    parts: list[tuple[list[int], set[int]]] = [([], {name}) for name in range(n_digits)]
    for dim in range(len(lines[SOURCE])):
        names = {digit.name for side in lines for digit in side[dim].digits}
        linked = [part for part in parts if not names.isdisjoint(part[1])]
        parts = [part for part in parts if names.isdisjoint(part[1])]
        parts.append(([dim, *(d for dims, _ in linked for d in dims)], names.union(*(each for _, each in linked))))
    return parts


def _unbeaten(points: Iterable[tuple[int, int]]) -> Points:
    """The points (size, overlap) for which no other has at least this size and a smaller overlap."""
    best: Points = []
    for size, kept in sorted(points, key=lambda point: (-point[0], point[1])):
        if not best or kept < best[-1][1]:
            best.append((size, kept))
    return best
