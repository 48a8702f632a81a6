"""The rows of the links benchmark: collectives, halos, a program, and random reshardings, of few bytes and of many.

Other reshardings than those that the model was ever compared with are drawn for another *seed*: then there are only
these.  The sizes of large arrays follow from the measured links, so that each takes some hundredths of a second to
cross; what stays within nodes has NEAR_BYTES on all links.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from spmd_grid.grid.device_grid import Grid, resolve_shape
from spmd_grid.grid.sharding import Sharding

__all__ = [
    "LARGE",
    "MOST_BYTES",
    "NEAR_BYTES",
    "SMALL",
    "Drawn",
    "LinksCase",
    "all_cases",
    "quick_cases",
    "random_pair",
    "side_of",
]

SMALL, LARGE = "small", "large"
MOST_BYTES, NEAR_BYTES = 1 << 23, 1 << 22  # of any array, and of those that stay within nodes

_OPERATIONS = (
    "all_reduce",
    "all_gather",
    "broadcast",
    "reduce_scatter",
    "all_to_all",
    "reduce",
    "gather",
    "scatter",
    "shift",
    "halo",
    "program",
)
_RESHARDINGS = 60
_OF_SEED = 1000  # numbers of reshardings between those of one seed and those of the next


class LinksCase(NamedTuple):
    """An operation over all ranks, or (``number`` from 0) a random resharding, on an array of few or many bytes."""

    operation: str
    size: str
    number: int = -1

    @property
    def name(self) -> str:
        """The name of the row."""
        return f"{self.operation}, {self.size}" if self.number < 0 else f"resharding {self.number}, {self.size}"


def all_cases() -> list[LinksCase]:
    operations = [LinksCase(name, size) for name in _OPERATIONS for size in (SMALL, LARGE)]
    return operations + _reshardings(0)


def quick_cases() -> list[LinksCase]:
    """A few operations, a program of halos, and three reshardings."""
    return [case for case in all_cases() if case.name.startswith(("all_", "program")) or case.number in (0, 1, 2)]


def _reshardings(seed: int) -> list[LinksCase]:
    """The reshardings of a seed; every third is of few bytes."""
    first = _OF_SEED * seed
    sizes = [SMALL if number % 3 == 2 else LARGE for number in range(_RESHARDINGS)]
    return [LinksCase("reshard", size, first + number) for number, size in enumerate(sizes)]


class Drawn(NamedTuple):
    """The cases of another seed than 0, which is that of `all_cases`."""

    seed: int

    def all_cases(self) -> list[LinksCase]:
        return _reshardings(self.seed)

    def quick_cases(self) -> list[LinksCase]:
        return _reshardings(self.seed)[:3]


def side_of(n_bytes: int) -> int:
    """The side of a square of about ``n_bytes`` of doubles, which all ranks share alike."""
    return max(24, int((n_bytes // 8) ** 0.5) // 24 * 24)


def random_pair(case: LinksCase, ranks: int) -> tuple[Sharding, Sharding]:
    """The source and the target of a random resharding on a grid of all ranks; the same on all of them.  Local."""
    rng = Random(case.number)
    shape = resolve_shape((-1,) * rng.choice([1, 2, 2]), ranks)
    while True:
        grid = Grid(shape)
        source, target = (_random_sharding(rng, grid, partial) for partial in (rng.random() < 0.3, False))
        if source != target:
            return source, target


def _random_sharding(rng: Random, grid: Grid, partial: bool) -> Sharding:
    """Each axis splits one of two dimensions, or none; of the others, one may be partial."""
    split: list[list[int]] = [[], []]
    axes = list(range(grid.ndim))
    rng.shuffle(axes)
    free = []
    for axis in axes:
        where = rng.randrange(3)
        if where < 2:
            split[where].append(axis)
        else:
            free.append(axis)
    return Sharding(grid, split, partial_axes=free[:1] if partial else ())
