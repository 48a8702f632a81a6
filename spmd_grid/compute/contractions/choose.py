"""The ways to compute a contraction that the rule allows, and the cheapest of them that fits the memory.

An iterator is cut as a dimension of an operand that it runs along is cut, or as the requested result is, or not at
all; a grid axis cuts one iterator.  Without a requested result, its dimensions are cut wherever an operand's cut allows
it.  Axes that cut a summed iterator then replicate the result, or cut a dimension of it as an operand does (its partial
sums are scattered).  All processes choose alike, since only layouts, dtypes and the links decide; ties go to the first
way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from threading import RLock

import numpy as np

from spmd_grid.compute.contractions.panels import with_panels
from spmd_grid.compute.contractions.scheme import Held, Scheme, draft, price
from spmd_grid.compute.splits import Splits, block_starts, splits_of
from spmd_grid.errors import ShardingError
from spmd_grid.functions.interface import Interface
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.grid.starts import BlockStarts
from spmd_grid.links.model import LinkModel

__all__ = ["choose_scheme", "schemes"]

# The most assignments of cuts to iterators that are priced; contractions of two matrices have at most 36.
_MOST_PRICED = 64

# Simulated ranks, which are threads, ask for the same choice at the same time: one makes it, the others find it.
_one_at_a_time = RLock()

_Cut = tuple[Sharding, int]  # a sharding, and the dimension that it cuts


def choose_scheme(
    name: str,
    interface: Interface,
    held: tuple[Held, ...],
    dtype: np.dtype,
    grid: Grid,
    requested: Sharding | None,
    links: LinkModel,
    memory_limit: int | None = None,
    is_ahead: bool = False,
) -> Scheme:
    """The cheapest way.

    Plans only.  ``dtype``: that of the result.  ``requested``: the sharding of the result, None where the rule decides.
    ``memory_limit``: the most bytes of `Scheme.staging`.  Raises `ShardingError` where no way keeps to it.
    ``is_ahead``: whether panels are to travel while products are computed.
    """
    with _one_at_a_time:
        return _choose(name, interface, held, dtype, grid, requested, links, memory_limit, is_ahead)


@lru_cache(1024)
def _choose(
    name: str,
    interface: Interface,
    held: tuple[Held, ...],
    dtype: np.dtype,
    grid: Grid,
    requested: Sharding | None,
    links: LinkModel,
    memory_limit: int | None,
    is_ahead: bool,
) -> Scheme:
    drafts = schemes(interface, held, dtype, grid, requested, links)
    best: tuple[float, int, Scheme] | None = None
    least = min(scheme.staging for scheme in drafts)
    for number, scheme in sorted(enumerate(drafts), key=lambda each: each[1].seconds):
        if best is not None and scheme.seconds > best[0]:
            break  # the bounds of all others are higher still
        way: Scheme | None = price(scheme, interface, held, dtype, links)
        if way is not None and memory_limit is not None and scheme.staging > memory_limit:
            way, needed = with_panels(way, interface, held, dtype, links, memory_limit, is_ahead)
            least = min(least, needed)
        if way is not None and (best is None or (way.seconds, number) < best[:2]):
            best = way.seconds, number, way
    if best is None:
        raise ShardingError(
            f"{name}: memory_limit is {memory_limit} bytes; besides the shards of operands and result, a process needs"
            f" at least {least}"
        )
    return best[2]


def schemes(
    interface: Interface,
    held: tuple[Held, ...],
    dtype: np.dtype,
    grid: Grid,
    requested: Sharding | None,
    links: LinkModel,
) -> list[Scheme]:
    """All ways that the rule allows, without panels; their seconds are lower bounds.  Local.

    Arguments as for `choose_scheme`.
    """
    options = _options(interface, held, grid, requested)
    is_free = requested is None
    found = []
    for cuts in islice(_assignments(options, interface.results[0], is_free), _MOST_PRICED):
        splits = _splits(interface, grid, cuts)
        result = requested or _splits(interface, grid, _scattered(cuts, options, interface)).sharding(
            interface.results[0]
        )
        found.append(draft(interface, held, dtype, splits, result, links))
    return found


def _options(interface: Interface, held: tuple[Held, ...], grid: Grid, requested: Sharding | None) -> list[list[_Cut]]:
    """The cuts of each iterator in operands and in the requested result, each once."""
    options: list[list[_Cut]] = [[] for _ in interface.iterators]
    shardings = [(each.sharding, by) for each, by in zip(held, interface.operands) if each.sharding is not None]
    # The operand with the most bytes comes first, so that it decides between equals.
    sizes = [np.prod(each.shape) * each.dtype.itemsize for each in held if each.sharding is not None]
    in_order = [shardings[i] for i in sorted(range(len(shardings)), key=lambda i: -sizes[i])]
    if requested is not None:
        in_order.append((requested, interface.results[0]))
    for sharding, by in in_order:
        for dim, iterator in enumerate(by):
            if iterator is not None and sharding.grid == grid and sharding.axes_of(dim):
                _add(options[iterator], (sharding, dim), interface.iterators[iterator].extent)
    if requested is not None and requested.partial_axes:
        along = Sharding(grid, [requested.partial_axes])
        for number, each in enumerate(interface.iterators):
            if each.is_reduction:
                _add(options[number], (along, 0), each.extent)
    return options


def _add(options: list[_Cut], cut: _Cut, extent: int) -> None:
    def cells(cut: _Cut) -> tuple[tuple[int, ...], BlockStarts]:
        return cut[0].axes_of(cut[1]), block_starts(cut[0], cut[1], extent)

    if all(cells(each) != cells(cut) for each in options):
        options.append(cut)


def _assignments(options: list[list[_Cut]], result: Sequence[int | None], is_free: bool) -> Iterator[dict[int, _Cut]]:
    """The ways to give iterators cuts that share no axis.

    ``is_free``: the result's sharding is not given; then no iterator of it stays whole that could be cut.
    """

    def extend(iterator: int, cuts: dict[int, _Cut], used: frozenset[int]) -> Iterator[dict[int, _Cut]]:
        if iterator == len(options):
            if not is_free or not any(
                used.isdisjoint(_axes(cut)) for i in result if i is not None and i not in cuts for cut in options[i]
            ):
                yield cuts
            return
        for cut in options[iterator]:
            if used.isdisjoint(_axes(cut)):
                yield from extend(iterator + 1, {**cuts, iterator: cut}, used.union(_axes(cut)))
        yield from extend(iterator + 1, cuts, used)

    return extend(0, {}, frozenset())


def _axes(cut: _Cut) -> tuple[int, ...]:
    return cut[0].axes_of(cut[1])


def _splits(interface: Interface, grid: Grid, cuts: dict[int, _Cut]) -> Splits:
    return splits_of(
        interface, grid, cuts, [_axes(cuts[i]) if i in cuts else () for i in range(len(interface.iterators))]
    )


def _scattered(cuts: dict[int, _Cut], options: list[list[_Cut]], interface: Interface) -> dict[int, _Cut]:
    """``cuts`` of the result's iterators, and of more of them by axes that cut summed ones."""
    kept = {i: cut for i, cut in cuts.items() if i in interface.results[0]}
    used = {axis for cut in kept.values() for axis in _axes(cut)}
    for i in interface.results[0]:
        if i is None or i in kept:
            continue
        cut = next((each for each in options[i] if used.isdisjoint(_axes(each))), None)
        if cut is not None:
            kept[i] = cut
            used |= set(_axes(cut))
    return kept
