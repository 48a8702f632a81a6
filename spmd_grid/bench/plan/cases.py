"""The rows of the planning benchmark: kinds of resharding, each on grids of 8 to 1,048,576 devices.

As the grid of a kind grows, the axes that determine a device's partners keep their sizes, or their ratio, and blocks
keep their size.  So a device has as many partners on the largest grid as on the smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding

__all__ = ["DEVICES", "MILLION", "PlanCase", "all_cases", "quick_cases"]

MILLION = 1 << 20  # devices of the largest grids
DEVICES = (8, 64, 512, 4096, 32768, 262144, MILLION)

_BLOCK = 32  # cells of a device's block along a split dimension, before the resharding

Axes = tuple[tuple[int, ...], ...]  # for every dimension, the grid axes that split it


@dataclass(frozen=True)
class PlanCase:
    """A resharding of a ``kind``: ``before`` and ``after`` it, dimensions are split by these axes."""

    kind: str
    grid_shape: tuple[int, ...]
    global_shape: tuple[int, ...]
    before: Axes
    after: Axes

    @property
    def devices(self) -> int:
        return prod(self.grid_shape)

    @property
    def name(self) -> str:
        return f"{self.kind}, {'x'.join(map(str, self.grid_shape))}"

    def shardings(self, grid: Grid) -> tuple[Sharding, Sharding]:
        """New source and target shardings, in which nothing is cached yet."""
        return Sharding(grid, self.before), Sharding(grid, self.after)


def _log2(n: int) -> int:
    return n.bit_length() - 1


def _two_axes(n: int) -> tuple[int, int]:
    """``n``, a power of two, as two factors that are equal, or of which the second is twice the first."""
    first = 1 << _log2(n) // 2
    return first, n // first


def _equal_axes(n: int, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """``n``, a power of two, as ``count`` equal factors, and the remaining factor if it is not 1."""
    side = 1 << _log2(n) // count
    rest = n // side**count
    return (side,) * count, (rest,) if rest > 1 else ()


def _on_equal_axes(kind: str, ndim: int, before: Axes, after: Axes) -> Callable[[int], PlanCase]:
    """Makes the case for a number of devices, on equal axes.

    If the devices do not divide into equal axes, the remaining axis splits one more dimension, before and after.
    """

    def case(n: int) -> PlanCase:
        equal, rest = _equal_axes(n, len({axis for axes in (*before, *after) for axis in axes}))
        global_shape = (_BLOCK * equal[0],) * ndim + tuple(_BLOCK * size for size in rest)
        rest_axes = ((len(equal),),) if rest else ()
        return PlanCase(kind, (*equal, *rest), global_shape, (*before, *rest_axes), (*after, *rest_axes))

    return case


def _reorder(n: int) -> PlanCase:
    """Two axes of one dimension are swapped."""
    return PlanCase("reorder", _two_axes(n), (_BLOCK * n, _BLOCK), ((0, 1),), ((1, 0),))


def _move(n: int) -> PlanCase:
    """An axis moves from one dimension to the end of another."""
    return PlanCase("move", (*_two_axes(n // 4), 4), (_BLOCK * n // 4, _BLOCK * 4), ((0, 1), (2,)), ((0, 1, 2),))


def _move_of_copies(n: int) -> PlanCase:
    """An axis moves from one dimension to another, while all other axes replicate."""
    return PlanCase("move of copies", (*_two_axes(n // 4), 4), (_BLOCK * 4, _BLOCK * 4), ((2,),), ((), (2,)))


def _drop(n: int) -> PlanCase:
    """The first of three axes stops splitting the dimension, and replicates."""
    return PlanCase("drop of a major axis", (4, *_two_axes(n // 4)), (_BLOCK * n, _BLOCK), ((0, 1, 2),), ((1, 2),))


_KINDS: tuple[Callable[[int], PlanCase], ...] = (
    _on_equal_axes("swap", 2, ((0,), (1,)), ((1,), (0,))),
    _reorder,
    _move,
    _move_of_copies,
    _drop,
    _on_equal_axes("slice", 2, ((0,), ()), ((0,), (1,))),
    _on_equal_axes("replace", 1, ((0,),), ((1,),)),
    _on_equal_axes("rotation of three axes", 3, ((0,), (1,), (2,)), ((2,), (0,), (1,))),
)


def _many_partners() -> Iterator[PlanCase]:
    """Cases on a million devices with many partners: 1,024 destinations and 513 sources, then 1,024 of both."""
    grid_shape = 1024, 1024
    yield PlanCase("1,500 partners, drop", grid_shape, (513 * 1024, 32), ((0, 1),), ((1,),))
    yield PlanCase("1,000 partners both ways, move", grid_shape, (32 * MILLION, 32 * 1024), ((0,), (1,)), ((0, 1),))


def all_cases() -> list[PlanCase]:
    return [make(n) for make in _KINDS for n in DEVICES] + list(_many_partners())


def quick_cases() -> list[PlanCase]:
    """Every kind on a small and on the largest grid."""
    return [make(n) for make in _KINDS for n in (DEVICES[0], MILLION)]
