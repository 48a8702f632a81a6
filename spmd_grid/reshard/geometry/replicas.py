"""The replicas of a source's blocks, and which of them serves which receiver.

If the source replicates a block, one replica has to serve it, and both sides have to know which one without a message.
Axes along which the source holds replicas are *tied*, the others *loose*.  On one grid the device at r gets the block
at i (coordinates on loose axes) from the replica whose tied coordinates are r's, shifted by the sum of r - i over the
loose axes:

- a block that r holds itself has i = r there, so it comes from r;
- receivers that share their tied coordinates ask different replicas.

Axes along which the target holds replicas as well are not shifted: there, every replica serves its counterpart.  Tied
axes within a node are shifted by all loose axes, those from node to node only by loose axes from node to node: a block
that has a replica on the receiver's node comes from there.  Between different grids, coordinates say nothing; receivers
are numbered, and number n is served by replica n modulo the number of replicas, unless it holds the block.

Tied axes that split the target make the work of replicas uneven.  Blocks that are large enough are therefore divided
among these replicas: each serves its *share*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from spmd_grid.grid.device_grid import Grid
from spmd_grid.reshard.geometry.cuts import CutDimension

__all__ = ["ReplicaRule", "Replicas"]

# A block is divided among its replicas where every share has at least this many bytes.
_SHARE_BYTES = 1 << 16


class ReplicaRule(NamedTuple):
    """The number of the serving replica, on some of the tied axes.

    It is (weights . receiver's coordinates - sum of the block's digits on ``loose``) modulo ``n_replicas``.  ``tied``:
    the source's axes that number the replicas; ``sizes`` and ``strides`` theirs.  ``weights``: by axis of the target's
    grid.  ``shared``: whether the tied axes are the receiver's too, and count with their strides.
    """

    tied: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    n_replicas: int
    loose: tuple[int, ...]
    weights: dict[int, int]
    shared: bool


@dataclass(frozen=True, eq=False)
class Replicas:
    """The replicas of the blocks that ``source_cuts`` make, for receivers of the boxes that ``target_cuts`` make.

    Plans only.  ``has_hidden``: whether the first cut is that of the contributions to a partial value.  ``node_size``:
    the number of consecutive processes that share a node.
    """

    source: Grid
    target: Grid
    source_cuts: tuple[CutDimension, ...]
    target_cuts: tuple[CutDimension, ...]
    has_hidden: bool
    itemsize: int
    node_size: int

    @cached_property
    def on_one_grid(self) -> bool:
        """Whether a process has the same coordinates on both sides."""
        return self.source is self.target or self.source.is_like(self.target)

    @cached_property
    def loose(self) -> tuple[int, ...]:
        """The source's axes whose coordinates determine the block that a device holds."""
        return tuple(sorted(axis for cut in self.source_cuts for axis in cut.axes))

    @cached_property
    def _splits(self) -> set[int]:
        """The axes that cut the target."""
        return {axis for cut in self.target_cuts for axis in cut.axes}

    # -- shares ----------------------------------------------------------------------------------------------------

    @cached_property
    def share_axes(self) -> tuple[int, ...]:
        """The tied axes along which each replica serves a share of its block."""
        grid = self.source
        tied = [axis for axis in range(grid.ndim) if axis not in self.loose and grid.shape[axis] > 1]
        if tied and self.on_one_grid:
            tied = [axis for axis in tied if axis in self._splits and (self.node_size == 1 or self._within_node(axis))]
        dim = self._share_dim if tied else None
        if dim is None:
            return ()
        extents = [_extent(cut.interval((0,) * len(cut.axes))) for cut in self.source_cuts]
        most = min(extents[dim], prod(extents) * self.itemsize // _SHARE_BYTES)
        share_axes, shares = [], 1
        for axis in tied:
            if shares * grid.shape[axis] <= most:
                share_axes.append(axis)
                shares *= grid.shape[axis]
        return tuple(share_axes)

    @cached_property
    def _share_dim(self) -> int | None:
        """The dimension along which blocks are divided into shares, if there is one.

        All shares of a block should be asked for equally often.  So it is one that no loose axis cuts for the target,
        if possible one in which receivers need all of the block, and of these the longest.  Explicit offsets allow no
        more axes.
        """
        loose = set(self.loose) if self.on_one_grid else set()
        best: tuple[tuple[bool, bool, int], int] | None = None
        for dim, (held, needed) in enumerate(zip(self.source_cuts, self.target_cuts)):
            if held.offsets is not None or (dim == 0 and self.has_hidden):
                continue
            block = _extent(held.interval((0,) * len(held.axes)))
            window = _extent(needed.window((0,) * len(needed.axes)))
            rank = loose.isdisjoint(needed.axes), window >= block, min(block, window)
            if rank[2] and (best is None or rank > best[0]):
                best = rank, dim
        return None if best is None else best[1]

    @cached_property
    def served_cuts(self) -> tuple[CutDimension, ...]:
        """The source's cuts, with blocks divided into shares."""
        dim = self._share_dim if self.share_axes else None
        if dim is None:
            return self.source_cuts
        cuts = list(self.source_cuts)
        cut = cuts[dim]
        axes = (*cut.axes, *self.share_axes)
        cuts[dim] = CutDimension(cut.extent, axes, [self.source.shape[a] for a in axes], cut.blocks)
        return tuple(cuts)

    # -- rules -----------------------------------------------------------------------------------------------------

    @cached_property
    def rules(self) -> tuple[ReplicaRule, ...]:
        """The rules that choose the serving replica; none where there is only one."""
        grid, served = self.source, {axis for cut in self.served_cuts for axis in cut.axes}
        tied = [axis for axis in range(grid.ndim) if axis not in served and grid.shape[axis] > 1]
        if not tied:
            return ()
        if not self.on_one_grid:
            return (_rule(grid, tied, self.loose, self._receiver_weights(), shared=False),)
        alike = [axis for axis in tied if axis not in self._splits]
        near = [axis for axis in tied if axis in self._splits and self._within_node(axis)]
        far = [axis for axis in tied if axis in self._splits and axis not in near]
        beyond = tuple([axis for axis in self.loose if not self._within_node(axis)])
        groups: tuple[tuple[list[int], tuple[int, ...]], ...] = (alike, ()), (near, self.loose), (far, beyond)
        return tuple(
            _rule(grid, group, loose, dict.fromkeys(loose, 1) | dict(zip(group, strides_of(grid, group))), shared=True)
            for group, loose in groups
            if group
        )

    def _receiver_weights(self) -> dict[int, int]:
        """Weights that number the target's devices so that the receivers of one block have consecutive numbers."""
        grid = self.target
        free = [axis for axis in range(grid.ndim) if axis not in self._splits]
        weights, step = dict(zip(free, strides_of(grid, free))), prod(grid.shape[axis] for axis in free)
        for cut, served in zip(self.target_cuts, self.served_cuts):
            weights |= {axis: step * rest for axis, rest in zip(cut.axes, cut.rests)}
            step *= -(-prod(cut.sizes) // prod(served.sizes))  # the number of parts that meet one block
        return weights

    def _within_node(self, axis: int) -> bool:
        """Whether processes that differ on ``axis`` alone share a node."""
        grid = self.source
        span = grid.strides[axis] * grid.shape[axis]
        return grid.ranks is None and self.node_size % span == 0


def _rule(grid: Grid, tied: Sequence[int], loose: Sequence[int], weights: dict[int, int], shared: bool) -> ReplicaRule:
    sizes = tuple([grid.shape[axis] for axis in tied])
    return ReplicaRule(tuple(tied), sizes, strides_of(grid, tied), prod(sizes), tuple(loose), weights, shared)


def strides_of(grid: Grid, axes: Sequence[int]) -> tuple[int, ...]:
    """The weights of coordinates in the row-major number over ``axes``.  Local."""
    sizes = [grid.shape[axis] for axis in axes]
    return tuple(prod(sizes[k + 1 :]) for k in range(len(sizes)))


def _extent(interval: tuple[int, int]) -> int:
    return interval[1] - interval[0]
