"""Splits: the grid axes that cut each iterator of a function, and the shardings that follow for its arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, Protocol, TypeGuard

import numpy as np

from spmd_grid.functions.interface import WHOLE, IndexingMap, Interface
from spmd_grid.grid.blocks import block_starts as starts_of_blocks
from spmd_grid.grid.derived_starts import mapped, with_end
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.grid.starts import BlockStarts
from spmd_grid.typing import Shape

__all__ = [
    "ArrayOnGrid",
    "Splits",
    "block_starts",
    "choose_splits",
    "is_sharded",
    "one_layout",
    "plain_layout",
    "plain_sharding",
    "reference_of",
    "splits_of",
]


class ArrayOnGrid(Protocol):
    """The part of a sharded array that functions need."""

    _view: Any  # see `spmd_grid.compute.views`

    def __init__(self, local: np.ndarray, layout: Layout, grid: ProcessGrid): ...

    @property
    def local(self) -> np.ndarray: ...
    @property
    def core(self) -> np.ndarray: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def sharding(self) -> Sharding: ...
    @property
    def grid(self) -> ProcessGrid: ...
    @property
    def shape(self) -> Shape: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> np.dtype: ...
    @property
    def size(self) -> int: ...

    @property
    def stored(self) -> np.ndarray: ...
    @property
    def stored_core(self) -> np.ndarray: ...
    @property
    def halos_are_fresh(self) -> bool: ...

    def mark_dirty(self) -> None: ...
    def refresh_halos(self) -> None: ...
    def fresh_halos_hold(self) -> bool: ...
    def stored_to_write(self) -> np.ndarray: ...
    def core_to_write(self) -> np.ndarray: ...


def is_sharded(x: object) -> TypeGuard[ArrayOnGrid]:
    """Whether ``x`` is a sharded array."""
    return isinstance(getattr(x, "layout", None), Layout)


@lru_cache(1024)
def plain_sharding(sharding: Sharding) -> Sharding:
    """``sharding`` without halos and partial axes."""
    return replace(sharding, halo_sizes=None, partial_axes=(), partial_kind="sum")


@lru_cache(4096)
def one_layout(layout: Layout) -> Layout:
    """The first of equal layouts: that two arrays hold it is seen without a comparison of all parts.  Local."""
    return layout


@lru_cache(1024)
def plain_layout(layout: Layout) -> Layout:
    """``layout`` without halos and partial axes."""
    return one_layout(Layout(plain_sharding(layout.sharding), layout.global_shape))


def block_starts(sharding: Sharding, dim: int, extent: int) -> BlockStarts:
    """The start of every block of a dimension, major to minor, and its end; (0, extent) where no axis cuts it."""
    offsets = sharding.offsets_of(dim)
    if offsets is not None:
        return with_end(offsets, extent)
    return _starts(extent, sharding.sizes_of(dim), sharding.blocks)


_starts = lru_cache(256)(starts_of_blocks)


class Splits(NamedTuple):
    """Per iterator of a function the grid axes that cut it, major to minor, and its block starts where explicit."""

    grid: Grid
    axes: tuple[tuple[int, ...], ...]
    offsets: tuple[BlockStarts | None, ...]
    blocks: str

    def sharding(self, indexing_map: IndexingMap) -> Sharding:
        """The sharding of an operand or a result."""
        return _sharding(self, indexing_map)

    def axes_of_reductions(self, interface: Interface) -> tuple[int, ...]:
        """The grid axes that cut iterators whose steps are combined."""
        cut = [axes for iterator, axes in zip(interface.iterators, self.axes) if iterator.is_reduction]
        return tuple([axis for axes in cut for axis in axes])


@lru_cache(4096)
def _sharding(splits: Splits, indexing_map: IndexingMap) -> Sharding:
    axes = [() if i is None else splits.axes[i] for i in indexing_map]
    offsets = [splits.offsets[i] for i in indexing_map if i is not None and splits.axes[i]]
    explicit = [each for each in offsets if each is not None]
    if explicit:  # then all of them are
        return Sharding(splits.grid, axes, sharded_dims_offsets=explicit)
    return Sharding(splits.grid, axes, blocks=splits.blocks)


def reference_of(operands: Sequence[Any]) -> ArrayOnGrid:
    """The sharded operand with the most bytes, the first of several; it decides the layout of the result."""
    return max(filter(is_sharded, operands), key=lambda x: prod(x.shape) * x.dtype.itemsize)


def choose_splits(interface: Interface, operands: Sequence[Any], reference: ArrayOnGrid) -> Splits:
    """The splits of the layout of ``reference``; an iterator that it does not have is cut as in the next operand.

    Axes that cut an iterator which must be whole move to the end of the longest parallel one, if there is one.
    """
    shardings = [(x.sharding, x.shape) if is_sharded(x) else None for x in operands]
    return _choose(interface, tuple(shardings), next(i for i, x in enumerate(operands) if x is reference))


@lru_cache(4096)
def _choose(interface: Interface, operands: tuple[tuple[Sharding, Shape] | None, ...], first: int) -> Splits:
    shardings = {i: found[0] for i, found in enumerate(operands) if found is not None}
    grid = shardings[first].grid
    in_order = sorted(shardings, key=lambda i: (i != first, i))
    cuts: dict[int, tuple[Sharding, int]] = {}  # by iterator: a sharding, and its dimension
    used: set[int] = set()
    for i in in_order:
        sharding = shardings[i]
        if sharding.grid != grid:
            continue
        found = {}
        for dim, iterator in enumerate(interface.operands[i]):
            by = sharding.axes_of(dim)
            if iterator is not None and iterator not in cuts and used.isdisjoint(by):
                found[iterator] = sharding, dim
                used |= set(by)
        cuts |= found
    cut_by = [cuts[i][0].axes_of(cuts[i][1]) if i in cuts else () for i in range(len(interface.iterators))]
    axes = _free_whole(interface, cut_by)
    return splits_of(interface, grid, cuts, axes)


def splits_of(
    interface: Interface, grid: Grid, cuts: Mapping[int, tuple[Sharding, int]], axes: Sequence[tuple[int, ...]]
) -> Splits:
    """The splits by ``axes`` per iterator; ``cuts`` gives for some a sharding, and the dimension it cuts so.  Local."""
    blocks = {sharding.blocks for sharding, dim in cuts.values() if sharding.axes_of(dim)}
    explicit = any(sharding.offsets_of(dim) for sharding, dim in cuts.values())
    offsets: list[BlockStarts | None] = [None] * len(axes)
    if len(blocks) > 1 or explicit:
        for i, extent in enumerate([iterator.extent for iterator in interface.iterators]):
            if not axes[i]:
                continue
            sharding, dim = cuts.get(i, (None, 0))
            if sharding is None or axes[i] != sharding.axes_of(dim):
                offsets[i] = block_starts(Sharding(grid, [axes[i]]), 0, extent)
            else:
                offsets[i] = _starts_of_steps(sharding, dim, extent)
    return Splits(grid, tuple(axes), tuple(offsets), min(blocks, default="ceil"))


def _starts_of_steps(sharding: Sharding, dim: int, extent: int) -> BlockStarts:
    """The first step on each device: that of its first cell of an operand, which may have more cells or fewer."""
    explicit = sharding.offsets_of(dim)
    starts = block_starts(sharding, dim, extent if explicit is None else explicit[-1])
    return with_end(mapped(starts, lambda start: min(start, extent), [extent]), extent)


def _free_whole(interface: Interface, axes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    freed = [axis for iterator, cut in zip(interface.iterators, axes) if iterator.kind == WHOLE for axis in cut]
    if not freed:
        return axes
    axes = [() if iterator.kind == WHOLE else cut for iterator, cut in zip(interface.iterators, axes)]
    parallel = [i for i, iterator in enumerate(interface.iterators) if iterator.kind == "parallel"]
    if parallel:
        longest = max(parallel, key=lambda i: interface.iterators[i].extent)
        axes[longest] = (*axes[longest], *freed)
    return axes
