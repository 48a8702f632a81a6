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

from spmd_grid.typing import Shape

__all__ = ["Box", "as_ints", "multi_index", "pieces_of", "row_major"]


def as_ints(values) -> tuple[int, ...] | None:
    """The ``values`` as a tuple of plain ints, or None where they are not an ordered row of integers (bool is none).

    >>> as_ints([2, 3]), as_ints([2, True]), as_ints("23"), as_ints(2)
    ((2, 3), None, None, None)
    """
    if isinstance(values, str | bytes | AbstractSet | Mapping):
        return None
    try:
        values = tuple(values)
        return None if any(isinstance(value, bool) for value in values) else tuple(map(index, values))
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
        return tuple([stop - start for start, stop in zip(self.starts, self.stops, strict=True)])

    @property
    def ndim(self) -> int:
        return len(self.starts)

    @property
    def size(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    @property
    def is_empty(self) -> bool:
        return any(stop <= start for start, stop in zip(self.starts, self.stops, strict=True))

    def intersect(self, other: Box) -> Box:
        """The common cells; where there are none, a box of extent 0 in the dimensions that do not meet."""
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
        """This box with ``low[d]`` cells more before, and ``high[d]`` after, in dimension d.

        >>> print(Box((0, 2), (3, 5)).grow((1, 0), (0, 2)))
        [-1:3, 2:7]
        """
        return Box(_add(self.starts, [-cells for cells in low]), _add(self.stops, high))

    def subtract(self, other: Box) -> list[Box]:
        """Disjoint non-empty boxes that together are the cells of this box outside ``other``.

        At most two per dimension: slabs of the first dimension span all others, and so on.

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
    """``box`` in row-major order, cut into boxes of at most ``most`` cells, of whole rows where they fit.

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
