"""Contractions whose summed dimension is walked in panels, so that no process holds a whole operand.

SUMMA (R. A. van de Geijn, J. Watts, "SUMMA: scalable universal matrix multiplication algorithm", 1997).  The result
stays where it is computed; a panel of columns of a is broadcast along the grid axis that cuts a's columns, the same
rows of b along the axis that cuts b's rows, and every process adds the product of its parts to its block of c:

    3 devices along k of a, 2 along k of b, 7 steps          a   0 1 2 | 3 4 5 | 6
    panels never cross the border of a block of either       b   0 1 2   3 | 4 5   6
                                                        panels   0 1 2 | 3 | 4 5 | 6

Where processes do not share memory, the next panel is broadcast while the product of this one is computed:

    broadcast   panel 0 | panel 1 | panel 2 | panel 3 |
    product               panel 0 | panel 1 | panel 2 | panel 3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from spmd_grid.compute.contractions.scheme import (
    Held,
    Panels,
    Scheme,
    is_in_place,
    is_result,
    longest_block,
    move_bytes,
    move_seconds,
)
from spmd_grid.compute.splits import Splits, block_starts, plain_sharding
from spmd_grid.exchange.requests import Request
from spmd_grid.functions.interface import IndexingMap, Interface
from spmd_grid.grid.box import multi_index
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.links.model import LinkModel
from spmd_grid.ops.broadcast import broadcast
from spmd_grid.typing import MultiIndex

__all__ = ["run_panels", "with_panels"]

# A panel's product is added to the result in strips of about this many bytes, which stay in the caches.
_STRIP_BYTES = 1 << 20

_NEVER = 1 << 62


def with_panels(
    scheme: Scheme,
    interface: Interface,
    held: tuple[Held, ...],
    dtype: np.dtype,
    links: LinkModel,
    limit: int,
    is_ahead: bool = False,
) -> tuple[Scheme | None, int]:
    """(``scheme`` in panels that keep to ``limit`` bytes, or None; the least bytes with which it would work).

    Plans only.  ``is_ahead``: whether the next panel is to travel meanwhile, if two find room within the limit.

    It needs one summed iterator that has more than one step, is not cut, and runs along the operands that move; and
    blocks that are the result's own.
    """
    summed = [i for i, each in enumerate(interface.iterators) if each.is_reduction and each.extent > 1]
    if len(summed) != 1 or scheme.splits.axes[summed[0]] or not is_result(scheme, interface.result_shape()):
        return None, _NEVER
    k = summed[0]
    sources = [
        _source(scheme.splits, interface, each, by, k) if k in by and not is_in_place(each, target) else None
        for each, by, target in zip(held, interface.operands, scheme.operands)
    ]
    seconds, kept, per_step = scheme.seconds, 0, 0
    for each, by, target, source in zip(held, interface.operands, scheme.operands, sources):
        if each.sharding is None or is_in_place(each, target):
            continue
        if source is None:
            kept += move_bytes(target, each.shape, each.dtype)
            continue
        per_step += (
            prod([longest_block(scheme.splits, interface, i) for i in by if i not in (k, None)]) * each.dtype.itemsize
        )
        if not is_in_place(each, source):
            kept += move_bytes(source, each.shape, each.dtype)
            seconds += move_seconds(each.sharding, source, each.shape, each.dtype, links)
    dim, row_bytes, rows = _rows(scheme.splits, interface, dtype)
    needed = kept + per_step + row_bytes
    if needed > limit or not per_step:
        return None, needed if per_step else _NEVER
    is_ahead = is_ahead and kept + 2 * per_step + row_bytes <= limit
    per_step *= 1 + is_ahead
    strip = max(1, min(rows, _STRIP_BYTES // max(row_bytes, 1), (limit - kept - per_step) // 4 // max(row_bytes, 1)))
    width = max(1, (limit - kept - strip * row_bytes) // per_step)
    pieces = _pieces(interface, sources, k, width)
    link = links.between(scheme.splits.grid, range(scheme.splits.grid.ndim))
    seconds += len(pieces) * link.latency * (scheme.splits.grid.size - 1).bit_length()
    widest = max([stop - start for start, stop in pieces], default=0)
    panels = Panels(k, tuple(sources), pieces, (dim, strip), is_ahead and len(pieces) > 1)
    return scheme._replace(seconds=seconds, staging=kept + widest * per_step + strip * row_bytes, panels=panels), needed


def _source(splits: Splits, interface: Interface, held: Held, by: IndexingMap, k: int) -> Sharding:
    """The sharding from which panels of an operand are taken: its own cut of ``k``, or one by the axes left."""
    required, along = splits.sharding(by), by.index(k)
    used = {axis for cut in required.split_axes for axis in cut}
    cut, cut_by = tuple([axis for axis in range(splits.grid.ndim) if axis not in used]), None
    if held.sharding is not None and held.sharding.grid == splits.grid:
        own = held.sharding.axes_of(along)
        if used.isdisjoint(own) and prod(splits.grid.shape[axis] for axis in own) > 1:
            cut, cut_by = own, held.sharding
    if cut_by is not None:
        starts_along = block_starts(cut_by, along, held.shape[along])
    else:
        starts_along = block_starts(Sharding(splits.grid, [cut]), 0, held.shape[along])
    cuts = [cut if dim == along else required.axes_of(dim) for dim in range(len(by))]
    starts = [
        starts_along if dim == along else block_starts(required, dim, held.shape[dim])
        for dim in range(len(by))
        if cuts[dim]
    ]
    source = Sharding(splits.grid, cuts, sharded_dims_offsets=starts or None)
    return plain_sharding(held.sharding) if held.sharding is not None and is_in_place(held, source) else source


def _rows(splits: Splits, interface: Interface, dtype: np.dtype) -> tuple[int, int, int]:
    """(the longest dimension of the result's blocks, the bytes of one row along it, the number of rows)."""
    extents = [1 if i is None else longest_block(splits, interface, i) for i in interface.results[0]]
    if not extents:
        return 0, dtype.itemsize, 1
    dim = max(range(len(extents)), key=lambda d: (interface.results[0][d] is not None, extents[d]))
    return dim, prod(extents[:dim] + extents[dim + 1 :]) * dtype.itemsize, extents[dim]


def _pieces(
    interface: Interface, sources: Sequence[Sharding | None], k: int, width: int
) -> tuple[tuple[int, int], ...]:
    """The panels: the common refinement of the sources' blocks, cut to at most ``width`` steps."""
    extent = interface.iterators[k].extent
    borders = {0, extent}
    for source, by in zip(sources, interface.operands):
        if source is not None:
            borders |= set(block_starts(source, by.index(k), extent))
    return tuple(
        [
            (start, min(start + width, after))
            for before, after in pairwise(sorted(borders))
            for start in range(before, after, width)
        ]
    )


# -- on processes --------------------------------------------------------------------------------------------------


def run_panels(
    interface: Interface,
    panels: Panels,
    blocks: Sequence[np.ndarray],
    local: Callable[..., Any],
    result: np.ndarray,
    grid: ProcessGrid,
) -> None:
    """Write the contraction of ``blocks``, each in its sharding of ``panels.held``, to ``result``.

    Collective over the grid, within an operation.
    """
    k, widest = panels.iterator, max([stop - start for start, stop in panels.pieces], default=0)
    takers = [
        None
        if source is None
        else _Taker(block, source, by.index(k), interface.iterators[k].extent, widest, grid, 1 + panels.is_ahead)
        for block, source, by in zip(blocks, panels.held, interface.operands)
    ]
    if not panels.pieces:
        result[...] = 0
    pieces, progress = panels.pieces, grid.process.progress if panels.is_ahead else None
    started: list[Request | None] = []
    if panels.is_ahead:
        started = [None if taker is None else taker.start(*pieces[0]) for taker in takers]
    for number, (start, stop) in enumerate(pieces):
        if panels.is_ahead:
            taken = [None if request is None else request.take_in_gate() for request in started]
            if number + 1 < len(pieces):
                started = [None if taker is None else taker.start(*pieces[number + 1]) for taker in takers]
        else:
            taken = [None if taker is None else taker.take(start, stop) for taker in takers]
        parts = [
            block[tuple([slice(start, stop) if i == k else slice(None) for i in by])] if panel is None else panel
            for block, panel, by in zip(blocks, taken, interface.operands)
        ]
        _add_product(interface, panels.strip, parts, local, result, start == 0, progress)


def _add_product(
    interface: Interface,
    strip: tuple[int, int],
    parts: Sequence[np.ndarray],
    local: Callable[..., Any],
    result: np.ndarray,
    is_first: bool,
    progress: Callable[[], object] | None,
) -> None:
    """Add the product of one panel, strip by strip; the first panel's is written.

    ``progress``: moves what is under way; called between the strips.
    """
    dim, most = strip
    iterator = interface.results[0][dim] if result.ndim else None
    rows = result.shape[dim] if iterator is not None else 1
    for low in range(0, rows, most):
        rows_of_strip = slice(low, low + most)
        cut = [
            part[tuple([rows_of_strip if i == iterator and i is not None else slice(None) for i in by])]
            for part, by in zip(parts, interface.operands)
        ]
        at = (*[slice(None)] * dim, rows_of_strip) if iterator is not None else ...
        if is_first:
            result[at] = local(*cut)
        else:
            result[at] += local(*cut)
        if progress is not None:
            progress()


class _Taker:
    """The panels of one operand, as they come to this process: broadcast by the devices that own them.

    ``n_buffers``: the panels that it holds at a time; they take turns.
    """

    def __init__(
        self, block: np.ndarray, source: Sharding, dim: int, extent: int, widest: int, grid: ProcessGrid, n_buffers: int
    ):
        self._block, self._source, self._dim, self._extent, self._grid = block, source, dim, extent, grid
        self._axes = source.axes_of(dim)
        self._digits = tuple([grid.own_coords[axis] for axis in self._axes])
        self._begin = source.block(dim, extent, self._digits)[0]
        others = prod(n for d, n in enumerate(block.shape) if d != dim)
        self._buffers = [grid.allocate((others * widest,), block.dtype) for _ in range(n_buffers)]

    def take(self, start: int, stop: int) -> np.ndarray:
        """The cells from ``start`` to ``stop`` of the dimension, which are in one block.  Collective over its axes."""
        own, root, panel = self._next(start, stop)
        return broadcast.run_in_gate(own, self._grid, self._axes, (root,), panel)

    def start(self, start: int, stop: int) -> Request:
        """As `take`, as a request: `Request.take_in_gate` gives the cells.  Collective over its axes."""
        own, root, panel = self._next(start, stop)
        return broadcast.start_in_gate(own, self._grid, self._axes, (root,), panel)

    def _next(self, start: int, stop: int) -> tuple[np.ndarray | None, MultiIndex, np.ndarray]:
        """The part of the panel that this process gives, the root, and the buffer of the panel."""
        shape = [stop - start if d == self._dim else n for d, n in enumerate(self._block.shape)]
        self._buffers.append(self._buffers.pop(0))
        panel = self._buffers[-1][: prod(shape)].reshape(shape)
        root = multi_index(self._source.position(self._dim, self._extent, start), self._source.sizes_of(self._dim))
        own = None
        if root == self._digits:
            own = self._block[(*[slice(None)] * self._dim, slice(start - self._begin, stop - self._begin))]
        return own, root, panel
