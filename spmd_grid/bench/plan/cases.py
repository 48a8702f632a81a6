"""The rows of the planning benchmark: kinds of resharding, each on grids of 8 to 1,048,576 devices.

From grid to grid the axes that determine the partners keep their sizes, or their ratio, and the blocks keep their
sizes.  So a device has the same number of partners on the largest grid as on the smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding

__all__ = ["DEVICES", "MILLION", "PlanCase", "all_cases", "quick_cases"]

MILLION = 1 << 20
DEVICES = (8, 64, 512, 4096, 32768, 262144, MILLION)

Axes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class PlanCase:
    """A resharding of a ``kind``, from dimensions split by the axes ``before`` to dimensions split by ``after``."""

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
        """New source and target shardings, without anything cached."""
        return Sharding(grid, self.before), Sharding(grid, self.after)


def _exponent(n: int) -> int:
    return n.bit_length() - 1


def _two_axes(n: int) -> tuple[int, int]:
    """``n``, a power of two, as its two factors nearest to each other."""
    low = 1 << _exponent(n) // 2
    return low, n // low


def _equal_axes(n: int, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """``n``, a power of two, as ``count`` equal factors, and the remaining factor, if any."""
    side = 1 << _exponent(n) // count
    rest = n // side**count
    return (side,) * count, (rest,) if rest > 1 else ()


def _among_equals(kind: str, ndim: int, before: Axes, after: Axes, block: int = 32) -> Callable[[int], PlanCase]:
    """A resharding on equal axes; a remaining axis splits one more dimension, before and after."""

    def case(n: int) -> PlanCase:
        equal, rest = _equal_axes(n, len({axis for axes in (*before, *after) for axis in axes}))
        shape = tuple(block * equal[0] for _ in range(ndim)) + tuple(block * size for size in rest)
        more = ((len(equal),),) if rest else ()
        return PlanCase(kind, (*equal, *rest), shape, (*before, *more), (*after, *more))

    return case


def _reorder(n: int) -> PlanCase:
    return PlanCase("reorder", _two_axes(n), (32 * n, 32), ((0, 1),), ((1, 0),))


def _move(n: int) -> PlanCase:
    a, b = _two_axes(n // 4)
    return PlanCase("move", (a, b, 4), (32 * a * b, 128), ((0, 1), (2,)), ((0, 1, 2),))


def _move_of_copies(n: int) -> PlanCase:
    return PlanCase("move of copies", (*_two_axes(n // 4), 4), (128, 128), ((2,),), ((), (2,)))


def _drop(n: int) -> PlanCase:
    return PlanCase("drop of a major axis", (4, *_two_axes(n // 4)), (32 * n, 32), ((0, 1, 2),), ((1, 2),))


_KINDS: tuple[Callable[[int], PlanCase], ...] = (
    _among_equals("swap", 2, ((0,), (1,)), ((1,), (0,))),
    _reorder,
    _move,
    _move_of_copies,
    _drop,
    _among_equals("slice", 2, ((0,), ()), ((0,), (1,))),
    _among_equals("replace", 1, ((0,),), ((1,),)),
    _among_equals("rotation of three axes", 3, ((0,), (1,), (2,)), ((2,), (0,), (1,))),
)


def _many_partners() -> Iterator[PlanCase]:
    """Cases on a million devices: 1,024 destinations and 513 sources; and 1,024 of both."""
    grid = 1024, 1024
    yield PlanCase("1,500 partners, drop", grid, (513 * 1024, 32), ((0, 1),), ((1,),))
    yield PlanCase("1,000 partners both ways, move", grid, (32 * MILLION, 32 * 1024), ((0,), (1,)), ((0, 1),))


def all_cases() -> list[PlanCase]:
    return [make(n) for make in _KINDS for n in DEVICES] + list(_many_partners())


def quick_cases() -> list[PlanCase]:
    """Every kind on a small and on the largest grid."""
    return [make(n) for make in _KINDS for n in (DEVICES[0], MILLION)]
