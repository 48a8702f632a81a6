"""A layout on its way to another: the dimensions that axes split and have to split, and the named steps from there.

Axes are appended and removed at the *end* of a dimension's list.  Blocks nest, so those below a common prefix are
consecutive, on uneven extents too; an axis in front has to be swapped to the end first.  Each step leads to the layout
that its name implies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from math import prod

from spmd_grid.grid.blocks import POLICIES, block_starts
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.planner.steps import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    EXCHANGE,
    MARK_PARTIAL,
    REDUCE_SCATTER,
    SLICE,
    SWAP,
    Step,
)

__all__ = ["Waypoint", "is_cut_by"]

Axes = tuple[int, ...]


@dataclass(frozen=True)
class Waypoint:
    """``layout`` on its way to ``target``, layouts of one global shape.  Plans only.

    An axis is *free* where it neither splits nor is partial, *owed* where it is partial and has to be reduced,
    *homeless* where it splits a dimension but none of the target's.  An axis of size 1 splits nothing, whatever list
    it is in, unless it has to become partial.  Steps make layouts without halos.
    """

    layout: Layout
    target: Layout

    # -- axes and dimensions -------------------------------------------------------------------------------------------

    @property
    def dims(self) -> range:
        return range(self.layout.ndim)

    @cached_property
    def have(self) -> tuple[Axes, ...]:
        """The axes that split each dimension."""
        return self._cutting(self.layout)

    @cached_property
    def want(self) -> tuple[Axes, ...]:
        """The axes that are to split each dimension."""
        return self._cutting(self.target)

    def _cutting(self, layout: Layout) -> tuple[Axes, ...]:
        sizes, partial = layout.grid.shape, self.target.sharding.partial_axes
        lists = [layout.sharding.axes_of(dim) for dim in self.dims]
        return tuple([tuple([axis for axis in axes if sizes[axis] > 1 or axis in partial]) for axes in lists])

    @cached_property
    def home(self) -> dict[int, int]:
        """The dimension that each axis is to split."""
        return {axis: dim for dim in self.dims for axis in self.want[dim]}

    @cached_property
    def placed(self) -> tuple[Axes, ...]:
        """The leading axes of each dimension that are already right."""
        return tuple([_common_prefix(*lists) for lists in zip(self.have, self.want)])

    @cached_property
    def rest(self) -> tuple[Axes, ...]:
        """The axes of each dimension after these: they have to leave, or are in the wrong order."""
        return tuple([have[len(placed) :] for have, placed in zip(self.have, self.placed)])

    @cached_property
    def missing(self) -> tuple[Axes, ...]:
        """The axes of each dimension that have to follow those that are placed, in order."""
        return tuple([want[len(placed) :] for want, placed in zip(self.want, self.placed)])

    def next(self, dim: int) -> Axes:
        """The axes that have to be appended to a dimension's list next; none while others are in the way.  Local."""
        return () if self.rest[dim] else self.missing[dim]

    def is_homeless(self, axis: int) -> bool:
        """Whether no dimension of the target is split by ``axis``.  Local."""
        return axis not in self.home

    def leavers(self, dim: int) -> list[int]:
        """The axes that split a dimension and are not to split it.  Local."""
        return [axis for axis in self.rest[dim] if self.home.get(axis) != dim]

    @cached_property
    def free(self) -> frozenset[int]:
        return frozenset(self.layout.sharding.replicated_axes)

    @cached_property
    def owed(self) -> Axes:
        return tuple([axis for axis in self.layout.sharding.partial_axes if axis not in self._kept])

    @cached_property
    def unmarked(self) -> Axes:
        """The axes that have yet to become partial."""
        return tuple([axis for axis in self.target.sharding.partial_axes if axis not in self._kept])

    @cached_property
    def _kept(self) -> frozenset[int]:
        """The axes that are partial and stay so."""
        here, there = self.layout.sharding, self.target.sharding
        same = here.partial_kind == there.partial_kind and self.is_on_one_grid
        return frozenset(here.partial_axes) & frozenset(there.partial_axes) if same else frozenset()

    @property
    def is_on_one_grid(self) -> bool:
        """Whether the same process has the same coordinates on both grids, whatever their axes are called."""
        return self.layout.grid.is_like(self.target.grid)

    @property
    def has_arrived(self) -> bool:
        """Whether all axes split the right dimensions; blocks and halos may still differ."""
        return self.is_on_one_grid and self.have == self.want and not self.owed and not self.unmarked

    @property
    def has_nothing_to_do(self) -> bool:
        """Whether every process already has its local array of the target."""
        halos = self.layout.sharding.halo_sizes or self.target.sharding.halo_sizes
        return self.has_arrived and not halos and _same_blocks(self.layout, self.target)

    @cached_property
    def blocks(self) -> str | None:
        """The policy of the layouts that follow: one that cuts this layout's blocks, and if possible the target's too.

        None where explicit offsets cut blocks that no policy makes.
        """
        here = [blocks for blocks in POLICIES if is_cut_by(self.layout, blocks)]
        return next((blocks for blocks in here if is_cut_by(self.target, blocks)), here[0] if here else None)

    # -- steps ---------------------------------------------------------------------------------------------------

    def slice(self, dim: int, axes: Axes) -> Step:
        """Cut a dimension's blocks by free ``axes``; nothing is sent."""
        return self._step(SLICE, axes, (dim,), {dim: (*self.have[dim], *axes)})

    def reduce_scatter(self, dim: int, axes: Axes) -> Step:
        """Combine a value partial along ``axes``, which then cut a dimension's blocks."""
        return self._step(REDUCE_SCATTER, axes, (dim,), {dim: (*self.have[dim], *axes)}, reduced=axes)

    def append(self, dim: int, axes: Sequence[int]) -> Iterator[Step]:
        """A step by which the first of ``axes`` cut a dimension: the leading free ones, else the leading owed ones."""
        for ready, step in ((self.free, self.slice), (self.owed, self.reduce_scatter)):
            found = tuple(takewhile(ready.__contains__, axes))
            if found:
                yield step(dim, found)
                return

    def all_to_all(self, split: int, concat: int, n: int) -> Step:
        """Let the last ``n`` axes of dimension ``concat`` cut the blocks of dimension ``split`` instead."""
        stay, axes = self.have[concat][:-n], self.have[concat][-n:]
        return self._step(ALL_TO_ALL, axes, (split, concat), {concat: stay, split: (*self.have[split], *axes)})

    def all_gather(self, dim: int, n: int) -> Step:
        """Gather a dimension's blocks along the last ``n`` of its axes."""
        return self._step(ALL_GATHER, self.have[dim][-n:], (dim,), {dim: self.have[dim][:-n]})

    def swap(self, lists: Mapping[int, Axes]) -> Step:
        """Replace the lists of dimensions by others of the same lengths, of axes that change places or are free.

        Boxes within the groups of all axes after a common prefix: on uneven extents, all of these take part.
        """
        dims = tuple([dim for dim in sorted(lists) if lists[dim] != self.have[dim]])
        axes: set[int] = set()
        for dim in dims:
            same = len(_common_prefix(self.have[dim], lists[dim]))
            axes.update(self.have[dim][same:], lists[dim][same:])
        return self._step(SWAP, tuple(sorted(axes)), dims, lists)

    def all_reduce(self, axes: Axes) -> Step:
        """Combine a value partial along ``axes``, on all devices."""
        return self._step(ALL_REDUCE, axes, (), {}, reduced=axes)

    def mark_partial(self, axes: Axes) -> Step:
        """Make the value one contribution of those along free ``axes``, the others the identity; nothing is sent."""
        return self._step(MARK_PARTIAL, axes, (), {}, marked=axes)

    def exchange(self) -> Step:
        """Exchange boxes, from any process to any other, straight to the target."""
        return Step(EXCHANGE, self.layout, self.target)

    def exchange_for_policy(self) -> Step:
        """Exchange boxes, to blocks of a policy on the same axes: the target's, if it has one."""
        blocks = next((blocks for blocks in POLICIES if is_cut_by(self.target, blocks)), POLICIES[0])
        old = self.layout.sharding
        reached = Sharding(
            self.target.grid,
            self.have,
            blocks=blocks,
            partial_axes=old.partial_axes,
            partial_kind=old.partial_kind,
        )
        return Step(EXCHANGE, self.layout, self._reach(reached))

    def _step(
        self,
        kind: str,
        axes: Axes,
        dims: Axes,
        lists: Mapping[int, Axes],
        reduced: Axes = (),
        marked: Axes = (),
    ) -> Step:
        """A step to the sharding with the ``lists`` changed, and axes no longer partial or newly so."""
        old, end = self.layout.sharding, self.target.sharding
        split = tuple([lists.get(dim, axes_of) for dim, axes_of in enumerate(self.have)])
        offsets = None
        if self.blocks is None:  # whole lists have been removed, or none
            every = [old.offsets_of(dim) for dim in self.dims if split[dim]]
            offsets = tuple([each for each in every if each is not None])
        sharding = Sharding(
            end.grid if self.is_on_one_grid else old.grid,
            split,
            blocks=self.blocks or POLICIES[0],
            sharded_dims_offsets=offsets,
            partial_axes=(*(axis for axis in old.partial_axes if axis not in reduced), *marked),
            partial_kind=end.partial_kind if marked else old.partial_kind,
        )
        return Step(kind, self.layout, self._reach(sharding), axes, dims)

    def _reach(self, sharding: Sharding) -> Layout:
        """The layout of a sharding; the target itself if nothing is left to do."""
        after = Waypoint(Layout(sharding, self.layout.global_shape), self.target)
        return self.target if after.has_nothing_to_do else after.layout


def is_cut_by(layout: Layout, blocks: str) -> bool:
    """Whether a layout's blocks are those of a policy: by its name, or because they are equal.  Local.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> sharding = Sharding(Grid((2, 2)), [[0, 1]])
    >>> is_cut_by(Layout(sharding, (8,)), "balanced"), is_cut_by(Layout(sharding, (5,)), "balanced")
    (True, False)
    """
    sharding = layout.sharding
    for dim in sharding.sharded_dims:
        extent, sizes, offsets = layout.global_shape[dim], sharding.sizes_of(dim), sharding.offsets_of(dim)
        if offsets is None:
            if sharding.blocks != blocks and extent % prod(sizes):
                return False
        elif offsets != block_starts(extent, sizes, blocks):
            return False
    return True


def _same_blocks(one: Layout, other: Layout) -> bool:
    """Whether the same axes cut the same blocks in both layouts."""
    offsets = one.sharding.sharded_dims_offsets
    if offsets is not None and offsets == other.sharding.sharded_dims_offsets:
        return True
    return any(is_cut_by(one, blocks) and is_cut_by(other, blocks) for blocks in POLICIES)


def _common_prefix(one: Axes, other: Axes) -> Axes:
    return tuple([a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other))])
