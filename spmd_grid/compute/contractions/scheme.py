"""One way to compute a contraction: the layouts of its operands, of its partial result and of its result.

c = a @ b       i, j parallel; k summed.  a: (i, k), b: (k, j), c: (i, j)
cuts of         i     j     k       what moves
stationary c    0     1     -       rows of a and columns of b are gathered
stationary a    0     -     1       b is brought to a's cut of k; c is combined along axis 1
stationary b    -     1     0       a is brought to b's cut of k; c is combined along axis 0
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import NamedTuple, cast

import numpy as np

from spmd_grid.compute.splits import Splits, block_starts, plain_sharding
from spmd_grid.functions.interface import Interface
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.links.model import LinkModel
from spmd_grid.reshard.plan import plan_reshard
from spmd_grid.reshard.volume.totals import most_local
from spmd_grid.typing import Shape

__all__ = [
    "Held",
    "Panels",
    "Scheme",
    "draft",
    "is_in_place",
    "is_result",
    "least_received",
    "longest_block",
    "move_bytes",
    "move_seconds",
    "moves",
    "price",
    "same_cells",
]

# Multiply-adds per second of one process.  It serves to compare ways, as the numbers of `LinkModel` do.
_RATE = 1e10

# The number of devices at which bounds look.
_PROBES = 8


class Held(NamedTuple):
    """An operand before the contraction.  ``sharding``: None for a plain array, of which every process has all."""

    sharding: Sharding | None
    shape: Shape
    dtype: np.dtype


class Panels(NamedTuple):
    """A walk along one summed iterator, panel by panel.

    ``held``: per operand the sharding from whose blocks its panels are broadcast; None where every process finds the
    panel in its own block.  ``pieces``: (start, stop) of each panel.  ``strip``: the dimension of the result along
    which a panel's product is cut, and the most cells of it at a time.  ``is_ahead``: whether there is memory for the
    next panel, which travels while the product of this one is computed.
    """

    iterator: int
    held: tuple[Sharding | None, ...]
    pieces: tuple[tuple[int, int], ...]
    strip: tuple[int, int]
    is_ahead: bool = False


class Scheme(NamedTuple):
    """One way to compute a contraction.

    ``operands``: the sharding to which each is brought.  ``partial``: that of the computed blocks, ``result``: that of
    the result.  ``seconds``: by the model of the links.  ``staging``: the most bytes that a process holds besides its
    shards of the operands and of the result.
    """

    splits: Splits
    operands: tuple[Sharding, ...]
    partial: Sharding
    result: Sharding
    seconds: float
    staging: int
    panels: Panels | None = None


@lru_cache(4096)
def same_cells(a: Sharding, b: Sharding, shape: Shape) -> bool:
    """Whether two shardings of one grid give every device the same local array, partial values aside.  Local."""
    return a == b or (a.grid == b.grid and all(_is_cut_alike(a, b, dim, extent) for dim, extent in enumerate(shape)))


def _is_cut_alike(a: Sharding, b: Sharding, dim: int, extent: int) -> bool:
    if a.halo_of(dim) != b.halo_of(dim):
        return False
    ours, theirs = ([axis for axis in each.axes_of(dim) if each.grid.shape[axis] > 1] for each in (a, b))
    if ours != theirs:
        return False
    if a.blocks == b.blocks and a.offsets_of(dim) is None and b.offsets_of(dim) is None:
        return True
    return block_starts(a, dim, extent) == block_starts(b, dim, extent)


def is_in_place(held: Held, target: Sharding) -> bool:
    """Whether every process finds its block of ``target`` in what it holds.  Local."""
    if held.sharding is None:
        return True
    return not _owed_axes(held.sharding) and same_cells(plain_sharding(held.sharding), target, held.shape)


def _owed_axes(sharding: Sharding) -> tuple[int, ...]:
    """The partial axes along which there is more than one contribution."""
    return tuple([axis for axis in sharding.partial_axes if sharding.grid.shape[axis] > 1])


def is_result(scheme: Scheme, shape: Shape) -> bool:
    """Whether the computed blocks are the local arrays of the result.  Local."""
    partial, result = scheme.partial, scheme.result
    return _owed_axes(partial) == _owed_axes(result) and same_cells(partial, result, shape)


def move_bytes(sharding: Sharding, shape: Shape, dtype: np.dtype) -> int:
    """The bytes of the largest local array of ``sharding``.  Local."""
    return most_local(Layout(sharding, shape)) * dtype.itemsize


def move_seconds(source: Sharding, target: Sharding, shape: Shape, dtype: np.dtype, links: LinkModel) -> float:
    """The time of a resharding, by the model of the links.  Plans only."""
    return plan_reshard(source, target, shape, dtype, links=links).seconds


def longest_block(splits: Splits, interface: Interface, iterator: int) -> int:
    """The most steps of an iterator that one device does.  Local."""
    extent = interface.iterators[iterator].extent
    if not splits.axes[iterator]:
        return extent
    starts = block_starts(splits.sharding((iterator,)), 0, extent)
    return max(stop - start for start, stop in pairwise(starts))


def draft(
    interface: Interface,
    held: tuple[Held, ...],
    dtype: np.dtype,
    splits: Splits,
    result: Sharding,
    links: LinkModel,
) -> Scheme:
    """The way that computes by ``splits``; its seconds are a lower bound, which takes no plan.  Local.

    ``dtype``: that of the result.
    """
    operands = tuple([splits.sharding(each) for each in interface.operands])
    scheme = Scheme(splits, operands, _partial_of(splits, interface), result, 0.0, 0)
    seconds, staging = _compute_seconds(scheme, interface), 0
    overrides = cast("tuple[tuple[int, float, float], ...]", links.axes)  # as LinkModel makes them
    bandwidth = max([links.node_bandwidth, links.network_bandwidth, *[each for _, _, each in overrides]])
    for source, target, shape, element in moves(scheme, interface, held, dtype):
        seconds += least_received(source, target, shape) * element.itemsize / bandwidth
        # What an operand becomes is held beside its shard, and so is what becomes the result.
        staging += move_bytes(source if source is scheme.partial else target, shape, element)
    return scheme._replace(seconds=seconds, staging=staging)


def price(scheme: Scheme, interface: Interface, held: tuple[Held, ...], dtype: np.dtype, links: LinkModel) -> Scheme:
    """``scheme`` with its seconds by the model of the links.  Plans only."""
    moved = [move_seconds(*move, links) for move in moves(scheme, interface, held, dtype)]
    return scheme._replace(seconds=_compute_seconds(scheme, interface) + sum(moved))


def moves(
    scheme: Scheme, interface: Interface, held: tuple[Held, ...], dtype: np.dtype
) -> list[tuple[Sharding, Sharding, Shape, np.dtype]]:
    """(source, target, shape, dtype) of every resharding of a way.  Local."""
    found = [
        (each.sharding, target, each.shape, each.dtype)
        for each, target in zip(held, scheme.operands)
        if each.sharding is not None and not is_in_place(each, target)
    ]
    if not is_result(scheme, interface.result_shape()):
        found.append((scheme.partial, scheme.result, interface.result_shape(), dtype))
    return found


def _compute_seconds(scheme: Scheme, interface: Interface) -> float:
    return prod([longest_block(scheme.splits, interface, i) for i in range(len(interface.iterators))]) / _RATE


def least_received(source: Sharding, target: Sharding, shape: Shape) -> int:
    """The cells that a few devices receive at least, by any way: the most of them.  Local."""
    before, after = Layout(source, shape), Layout(target, shape)
    combines = _owed_axes(source) != _owed_axes(target)
    most, grid = 0, target.grid
    for device in range(0, grid.size, max(1, grid.size // _PROBES)):
        coords = grid.multi_index(device)
        wanted = after.core_box(coords)
        kept = 0 if combines or source.grid != grid else wanted.intersect(before.core_box(coords)).size
        if not combines or not any(coords[axis] for axis in target.partial_axes):  # the others get the identity
            most = max(most, wanted.size - kept)
    return 0 if source.grid != grid else most


def _partial_of(splits: Splits, interface: Interface) -> Sharding:
    """The sharding of the blocks that devices compute: partial along the axes that cut a summed iterator.  Local."""
    whole = splits.sharding(interface.results[0])
    axes = splits.axes_of_reductions(interface)
    return replace(whole, partial_axes=axes) if axes else whole
