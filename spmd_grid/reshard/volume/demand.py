"""Upper bounds on the cells that are requested from one device, and on its partners, from the extents of parts alone.

A device serves a box: a part of every dimension.  The requests for it come from a number of the target's parts in each
dimension, times the replicas of these.  Where a cell has several holders, each gets a share of the requests.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, prod
from typing import NamedTuple

from spmd_grid.reshard.geometry.cuts import CutDimension
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.volume.descent import Descent, common_axes, longest_and_total, same_rule

__all__ = ["Demand", "demand_of", "longest", "most_partners"]


class Demand(NamedTuple):
    """The demand on a device with a box S: at most ``copies`` x (product over dimensions of ``weigh`` of S's extent).

    ``counts_own``: whether the demand includes the cells that the device keeps itself, which are not sent.  ``exact``:
    whether the bound is reached.
    """

    copies: int
    weigh: tuple[Callable[[int], int], ...]
    counts_own: bool
    exact: bool


class _Askers(NamedTuple):
    """A bound on the devices that ask one device: ``copies`` x (product over dimensions of ``parts`` of the target)."""

    copies: int
    parts: tuple[int, ...]


def demand_of(r: Redistribution) -> Demand:
    """The demand on the devices of the source.  Local."""
    cover = [_cover(served, cut) for served, cut in zip(r.served_cuts, r.target_cuts, strict=True)]
    extents = [longest(cut) for cut in r.served_cuts]
    rated = []
    for askers in _bounds_on_askers(r):
        weigh = [_at_most(f, cut, parts) for f, cut, parts in zip(cover, r.target_cuts, askers.parts, strict=True)]
        rated.append((askers.copies * prod(f(extent) for f, extent in zip(weigh, extents)), askers.copies, weigh))
    _, copies, weigh = min(rated, key=lambda each: each[0])
    count = 1 if r.on_one_grid or not r.replicas.rules else r.replicas.rules[0].n_replicas
    shared = {axis for rule in r.replicas.rules if rule.shared for axis in rule.tied}
    split = {axis for cut in r.target_cuts for axis in cut.axes}
    exact = not (
        r.replicas.share_axes or count > 1 or shared & split or any(cut.low or cut.high for cut in r.target_cuts)
    )
    return Demand(copies, tuple(weigh), count == 1, exact)


def most_partners(r: Redistribution) -> tuple[int, int]:
    """Upper bounds on the boxes that a device gets, from itself included, and on those that it sends to others.

    Local.  Parts that do not nest are assumed to lie anywhere, so that even equal ones meet two of the other side.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.layout import Layout
    >>> from spmd_grid.grid.sharding import Sharding
    >>> grid = Grid((1024, 1024))
    >>> blocks, rows = (Layout(Sharding(grid, split), (65536, 65536)) for split in ([[0], [1]], [[0]]))
    >>> most_partners(Redistribution(blocks, rows))
    (1024, 1024)
    """
    pairs = list(zip(r.served_cuts, r.target_cuts, strict=True))
    gets, met = prod(_most_met(served, cut) for served, cut in pairs), [_most_met(cut, served) for served, cut in pairs]
    sends = min(askers.copies * prod(map(min, met, askers.parts)) for askers in _bounds_on_askers(r))
    return gets, sends


def longest(cut: CutDimension) -> int:
    """The number of cells of the longest part, halos included.  Local."""
    return longest_and_total(cut)[0]


def _bounds_on_askers(r: Redistribution) -> list[_Askers]:
    """Bounds on the devices that ask one device, of which the smallest holds.

    On one grid, receivers that differ on tied axes alone ask different replicas: a replica serves one of them.  Between
    grids receivers are numbered, and of n replicas each serves every n-th.
    """
    grid, targets = r.target.grid, r.target_cuts
    tied = {axis for rule in r.replicas.rules if rule.shared for axis in rule.tied}
    split = {axis for cut in targets for axis in cut.axes}
    copies = prod(size for axis, size in enumerate(grid.shape) if axis not in split | tied)
    every = tuple([prod(cut.sizes) for cut in targets])
    if r.on_one_grid:
        parts = list(every)
        for dim, (served, cut) in enumerate(zip(r.served_cuts, targets, strict=True)):
            if not tied.isdisjoint(cut.axes):
                apart = cut.axes[common_axes(served, cut) :]
                parts[dim] = prod(grid.shape[axis] for axis in apart if axis not in tied)
        return [_Askers(copies, tuple(parts))]
    if not r.replicas.rules:
        return [_Askers(copies, every)]
    count, weights = r.replicas.rules[0].n_replicas, r.replicas.rules[0].weights
    # Every n-th of those with equal boxes; or, the other coordinates being equal, of those along one axis.
    bounds = [_Askers(-(-copies // count), every)]
    for dim, cut in enumerate(targets):
        for axis in cut.axes:
            turn = count // gcd(weights[axis], count)  # this many consecutive ones ask different replicas
            along = prod(-(-grid.shape[a] // turn) if a == axis else grid.shape[a] for a in cut.axes)
            bounds.append(_Askers(copies, (*every[:dim], along, *every[dim + 1 :])))
    return bounds


def _most_met(cut: CutDimension, other: CutDimension) -> int:
    """Upper bound on the parts of ``cut`` that meet one part of ``other``, halos included."""
    parts, extent, has_halos = _cores(cut), longest(other) + cut.low + cut.high, cut.low or cut.high
    # All parts but the outermost lie within.
    shortest = min((cells for cells, _ in parts if cells), default=1)
    met = min(sum(n for cells, n in parts if cells), 1 - (1 - extent) // shortest) if extent else 0
    n = min(len(cut.sizes), len(other.sizes))
    if same_rule(cut, other) and cut.sizes[:n] == other.sizes[:n] and not (has_halos or other.low or other.high):
        return min(met, prod(cut.sizes[n:]))  # parts of either side are parts of the other, cut further
    return met + (sum(n for cells, n in parts if not cells) if has_halos else 0)  # halos of empty parts


def _cores(cut: CutDimension) -> list[tuple[int, int]]:
    """(cells, number of parts with that many), halos not counted."""
    return Descent(CutDimension(cut.extent, cut.axes, cut.sizes, cut.blocks, cut.offsets)).extents()


def _cover(served: CutDimension, cut: CutDimension) -> Callable[[int], int]:
    """Upper bound on the cells requested from one part, counted with multiplicity, as a function of its extent."""
    if not (cut.low or cut.high):
        return _identity
    parts = _cores(cut)
    count, empty = sum(n for _, n in parts), sum(n for cells, n in parts if not cells)
    least = min((cells for cells, _ in parts if cells), default=1)
    # Halos of parts that begin (end) within, which those of a coarser cut do not, or up to a halo's width beyond.
    nested = cut.sizes == served.sizes[: len(cut.sizes)] and same_rule(served, cut)

    def cover(extent: int) -> int:
        cells = extent
        for halo in (cut.low, cut.high):
            near = -(-(halo if nested else extent + halo - 1) // least) + empty
            cells += min(near, count - 1) * min(halo, extent)
        return cells

    return cover


def _identity(extent: int) -> int:
    return extent


def _at_most(weigh: Callable[[int], int], cut: CutDimension, parts: int) -> Callable[[int], int]:
    """``weigh``, where at most ``parts`` of the target's parts ask."""
    if weigh is _identity and parts == prod(cut.sizes):
        return weigh  # all parts together have at least the extent
    widest = longest(cut)
    return lambda extent: min(weigh(extent), parts * min(extent, widest))
