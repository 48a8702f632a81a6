"""Half-open boxes of integer cells, and row-major arithmetic on multi-indices.

Box((1, 2), (3, 5)) prints as [1:3, 2:5]; starts belong to the box, stops do not:

      0 1 2 3 4
    0 . . . . .
    1 . . # # #
    2 . . # # #
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import index
from typing import Any

from spmd_grid.typing import Shape

__all__ = ["Box", "as_ints", "multi_index", "pieces_of", "row_major", "run_boxes"]


def as_ints(values: object) -> tuple[int, ...] | None:
    """``values`` as a tuple of plain ints, or None if they are not an ordered sequence of integers; bools are refused.

    >>> as_ints([2, 3]), as_ints([2, True]), as_ints("23"), as_ints(2)
    ((2, 3), None, None, None)
    """
    if isinstance(values, str | bytes | AbstractSet | Mapping):
        return None
    try:
        entries: tuple[Any, ...] = tuple(values)  # type: ignore[arg-type]  # what cannot be iterated raises TypeError
        if {*map(type, entries)} == {int}:
            return entries
        return None if any(isinstance(entry, bool) for entry in entries) else tuple(map(index, entries))
    except TypeError:
        return None


def row_major(digits: Iterable[int], sizes: Iterable[int]) -> int:
    """The row-major index of ``digits`` among ``sizes``, the first digit outermost; 0 for no digits.

    >>> row_major((1, 2), (2, 3))
    5
    """
    result = 0
    for digit, size in zip(digits, sizes, strict=True):
        result = result * size + digit
    return result


def multi_index(linear: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """The digits of row-major index ``linear`` among ``sizes``; the inverse of :func:`row_major`.

    >>> multi_index(5, (2, 3))
    (1, 2)
    """
    digits = []
    for size in reversed(sizes):
        linear, digit = divmod(linear, size)
        digits.append(digit)
    return tuple(reversed(digits))


@dataclass(frozen=True, slots=True)
class Box:
    """The cells ``starts[d] <= i[d] < stops[d]`` of every dimension d; a box without dimensions is one cell.

    >>> print(Box((0, 2), (3, 5)).intersect(Box((1, 0), (9, 4))))
    [1:3, 2:4]
    """

    starts: tuple[int, ...]
    stops: tuple[int, ...]

    @staticmethod
    def from_shape(shape: Sequence[int]) -> Box:
        """The box of all cells of an array of ``shape``."""
        return Box((0,) * len(shape), tuple(shape))

    @property
    def shape(self) -> Shape:
        """The extent of every dimension."""
        return tuple([stop - start for start, stop in zip(self.starts, self.stops, strict=True)])

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.starts)

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def is_empty(self) -> bool:
        """Whether the box has no cells."""
        return any([stop <= start for start, stop in zip(self.starts, self.stops)])

    def intersect(self, other: Box) -> Box:
        """The common cells; if there are none, a box of extent 0 in the dimensions that do not overlap."""
        starts = tuple(map(max, self.starts, other.starts))
        return Box(starts, tuple(map(max, starts, map(min, self.stops, other.stops))))

    def contains(self, other: Box) -> bool:
        """Whether every cell of ``other`` is a cell of this box (true for an empty ``other``)."""
        return other.is_empty or self.intersect(other) == other

    def shift(self, offsets: Sequence[int]) -> Box:
        """This box moved by ``offsets``."""
        return Box(_add(self.starts, offsets), _add(self.stops, offsets))

    def relative_to(self, origin_starts: Sequence[int]) -> Box:
        """This box in the coordinates of an array whose first cell is ``origin_starts``."""
        return self.shift([-start for start in origin_starts])

    def grow(self, low: Sequence[int], high: Sequence[int]) -> Box:
        """This box, extended in every dimension d by ``low[d]`` cells before it and ``high[d]`` after it.

        >>> print(Box((0, 2), (3, 5)).grow((1, 0), (0, 2)))
        [-1:3, 2:7]
        """
        return Box(_add(self.starts, [-cells for cells in low]), _add(self.stops, high))

    def subtract(self, other: Box) -> list[Box]:
        """The cells of this box outside ``other``, as disjoint non-empty boxes.

        At most two boxes per dimension; those of the first dimension span all later ones, and so on.

        >>> [str(box) for box in Box((0, 0), (3, 4)).subtract(Box((1, 1), (3, 3)))]
        ['[0:1, 0:4]', '[1:3, 0:1]', '[1:3, 3:4]']
        """
        if self.is_empty:
            return []
        hole = self.intersect(other)
        if hole.is_empty:
            return [self]
        rest = []
        for d in range(self.ndim):
            head, tail = (hole.starts[:d], hole.stops[:d]), (self.starts[d + 1 :], self.stops[d + 1 :])
            for start, stop in ((self.starts[d], hole.starts[d]), (hole.stops[d], self.stops[d])):
                if start < stop:
                    rest.append(Box((*head[0], start, *tail[0]), (*head[1], stop, *tail[1])))
        return rest

    def slices(self) -> tuple[slice, ...]:
        """The index that selects these cells in an array whose first cell is the origin."""
        assert all(start >= 0 for start in self.starts), f"{self} is not in array coordinates"
        return tuple(map(slice, self.starts, self.stops))

    def __str__(self) -> str:
        return f"[{', '.join(f'{start}:{stop}' for start, stop in zip(self.starts, self.stops, strict=True))}]"


def _add(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    return tuple([x + y for x, y in zip(a, b, strict=True)])


def pieces_of(box: Box, most: int) -> Iterator[Box]:
    """``box`` cut into boxes of at most ``most`` cells, in row-major order; rows are cut only where they do not fit.

    >>> [str(piece) for piece in pieces_of(Box((0, 0), (3, 4)), 8)]
    ['[0:2, 0:4]', '[2:3, 0:4]']
    """
    if box.is_empty:
        return
    if box.size <= most:
        yield box
        return
    dim = next(d for d, extent in enumerate(box.shape) if extent > 1)
    step = max(most * box.shape[dim] // box.size, 1)
    for start in range(box.starts[dim], box.stops[dim], step):
        starts, stops = list(box.starts), list(box.stops)
        starts[dim], stops[dim] = start, min(start + step, box.stops[dim])
        yield from pieces_of(Box(tuple(starts), tuple(stops)), most)


def run_boxes(shape: Sequence[int], start: int, stop: int) -> list[Box]:
    """The cells ``start`` to ``stop``, in row-major order, of an array of ``shape``: disjoint boxes, in this order.

    >>> [str(box) for box in run_boxes((3, 4), 2, 11)]
    ['[0:1, 2:4]', '[1:2, 0:4]', '[2:3, 0:3]']
    """
    if start >= stop:
        return []
    if not shape:
        return [Box((), ())]
    inner = math.prod(shape[1:])
    first, last = start // inner, (stop - 1) // inner
    if start == first * inner and stop == (last + 1) * inner:
        return [Box((first, *[0] * (len(shape) - 1)), (last + 1, *shape[1:]))]
    found = []
    middle = -(-start // inner), stop // inner  # rows that are whole
    parts = [(start, min(stop, (first + 1) * inner))] if start % inner or first == last else []
    if middle[0] < middle[1]:
        parts.append((middle[0] * inner, middle[1] * inner))
    if stop % inner and last != first:
        parts.append((last * inner, stop))
    for low, high in parts:
        row = low // inner
        if high - low >= inner:
            found.append(Box((row, *[0] * (len(shape) - 1)), (high // inner, *shape[1:])))
        else:
            for box in run_boxes(shape[1:], low - row * inner, high - row * inner):
                found.append(Box((row, *box.starts), (row + 1, *box.stops)))
    return found
