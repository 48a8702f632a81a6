"""Digits of device numbers in which the axes of two grids can be written: 6 and 2 x 3 share digits of sizes 2 and 3."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, TypeAlias

from spmd_grid.grid.device_grid import Grid

__all__ = ["SOURCE", "TARGET", "Digits", "DigitsOfAxis", "common_digits"]

SOURCE, TARGET = 0, 1

# By axis, the (name, size) of its digits, major to minor.
DigitsOfAxis: TypeAlias = dict[int, list[tuple[int, int]]]


class Digits(NamedTuple):
    """The digits of device numbers by name: their sizes, minor to major, and per side those of each axis.

    Those named from ``outside`` on are 0 for processes in both grids; only devices of side ``larger`` have others.
    """

    sizes: tuple[int, ...]
    of_axis: tuple[DigitsOfAxis, DigitsOfAxis]
    outside: int
    larger: int


def common_digits(source: Grid, target: Grid) -> Digits | None:
    """Digits in which the axes of both grids can be written; None if there are none.

    >>> common_digits(Grid((6,)), Grid((2, 3)))
    Digits(sizes=(3, 2), of_axis=({0: [(1, 2), (0, 3)]}, {0: [(1, 2)], 1: [(0, 3)]}), outside=2, larger=1)
    """
    if source.ranks != target.ranks:
        return None
    spans = sorted({1, *(stride * size for grid in (source, target) for stride, size in zip(grid.strides, grid.shape))})
    if any(larger % smaller for smaller, larger in pairwise(spans)):
        return None
    sizes = [larger // smaller for smaller, larger in pairwise(spans)]
    of_source, of_target = (
        {
            axis: [(n, sizes[n]) for n in reversed(range(len(sizes))) if stride <= spans[n] < stride * size]
            for axis, (stride, size) in enumerate(zip(grid.strides, grid.shape))
        }
        for grid in (source, target)
    )
    outside = spans.index(min(source.size, target.size))
    return Digits(tuple(sizes), (of_source, of_target), outside, SOURCE if source.size > target.size else TARGET)
