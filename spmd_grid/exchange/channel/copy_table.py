"""The copy table of a channel, by which its course copies: rows in the order in which the channel's state counts them.

By source: rows out of its arrays, then rows out of its staging.  By reader: rows into staging.  By message neighbour:
rows out of the messages received, then rows into those sent.  Then the own cells, and the constants.  Within each,
field after field, piece after piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import NamedTuple, Protocol

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.channel.shared_block import SharedBlock
from spmd_grid.grid.cells import Cells
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import Communicator
from spmd_grid.transport.wire import Wire
from spmd_grid.typing import Shape

__all__ = ["ChannelParts", "ExchangeCells", "Taken", "c_strides", "table_rows", "n_runs"]

Strides = tuple[int, ...]

# A row without planes, which copies nothing: the order of the rows requires one here.
_NOTHING = kernels.BoxRow(0, 0, 0, 0, ((0, 0, 0), (1, 0, 0), (1, 0, 0), (1, 1, 1)))


class Taken(NamedTuple):
    """Cells to receive: ``target`` in this process's array, from ``source`` in the array of ``member``."""

    member: int
    target: Cells
    source: Cells
    source_shape: Shape


class ExchangeCells(NamedTuple):
    """The cells of one exchange: given and taken, by member, and those that stay on this process."""

    gives: dict[int, list[Cells]]
    takes: dict[int, list[Taken]]
    own: list[Taken]


class _Side(NamedTuple):
    """One side of a copy: the strides of its cells, and the offset of the first."""

    strides: Strides
    offset: int


class ChannelParts(Protocol):
    """The parts of a `Channel` from which its calls, its state and its copy table are made."""

    comm: Communicator
    shape: Shape
    into_shape: Shape
    dtypes: tuple[np.dtype, ...]
    gives: dict[int, list[Cells]]
    takes: dict[int, list[Taken]]
    own: list[Taken]
    fills: list[tuple[Cells, Sequence[np.ndarray]]]
    lands: bool
    rounds: Iterable[ExchangeCells]
    block: SharedBlock
    readers: list[int]
    sources: list[int]
    receives: list[int]
    sends: list[int]
    outgoing: dict[int, np.ndarray]
    wire: Wire
    tables: dict[tuple, tuple[np.ndarray, int]]


def table_rows(
    channel: ChannelParts, moved: ExchangeCells, given: Sequence[Strides], taking: Sequence[Strides]
) -> Iterator[kernels.BoxRow]:
    """The rows for arrays of strides ``given``, whose cells go into arrays of strides ``taking``, by field.  Local."""
    items = [dtype.itemsize for dtype in channel.dtypes]

    def out_of(f: int, cells: Cells) -> _Side:
        return _Side(cells.strides(given[f]), cells.offset(given[f]))

    def into(f: int, cells: Cells) -> _Side:
        return _Side(cells.strides(taking[f]), cells.offset(taking[f]))

    def out_of_packed(targets: Sequence[Cells], start: int) -> Iterator[kernels.BoxRow]:
        for f, cells, packed in _packed(targets, items, start):
            yield _row(cells.shape, items[f], packed, into(f, cells)) if channel.lands else _NOTHING

    def into_packed(sources: Sequence[Cells], start: int) -> Iterator[kernels.BoxRow]:
        for f, cells, packed in _packed(sources, items, start):
            yield _row(cells.shape, items[f], out_of(f, cells), packed)

    for member in channel.sources:
        takes = moved.takes[member]
        for f, item in enumerate(items):
            for take in takes:
                theirs = c_strides(take.source_shape, item)
                lent = _Side(take.source.strides(theirs), take.source.offset(theirs))
                yield _row(take.target.shape, item, lent, into(f, take.target)) if channel.lands else _NOTHING
        yield from out_of_packed([take.target for take in takes], 0)
    for member in channel.readers:
        yield from into_packed(moved.gives[member], channel.block.parts[member])
    for member in channel.receives:
        yield from out_of_packed([take.target for take in moved.takes[member]], at.MESSAGE_HEAD)
    for member in channel.sends:
        yield from into_packed(moved.gives[member], at.MESSAGE_HEAD)
    for f, item in enumerate(items):
        for take in moved.own:
            sides = out_of(f, take.source), into(f, take.target)
            yield _row(take.target.shape, item, *sides) if channel.lands else _NOTHING
    constant = 0
    for f, item in enumerate(items):
        for cells, _ in channel.fills:
            yield _row(cells.shape, item, _Side((0,) * len(cells.shape), constant), into(f, cells))
            constant += item


def _packed(pieces: Sequence[Cells], items: Sequence[int], start: int) -> Iterator[tuple[int, Cells, _Side]]:
    """(field, cells, their side of a copy) of pieces packed one after the other, field by field."""
    for f, item in enumerate(items):
        for cells in pieces:
            yield f, cells, _Side(c_strides(cells.shape, item), start)
            start += prod(cells.shape) * item


def _row(shape: Shape, item: int, source: _Side, target: _Side) -> kernels.BoxRow:
    made = kernels.box_row(shape, item, source.strides, source.offset, target.strides, target.offset)
    return _NOTHING if made is None else made


def c_strides(shape: Shape, itemsize: int) -> Strides:
    """The strides of a C-contiguous array.

    >>> c_strides((2, 3), 8)
    (24, 8)
    """
    strides: list[int] = []
    for extent in reversed(shape):
        strides.append(itemsize)
        itemsize *= extent
    return tuple(reversed(strides))


def n_runs(cells: Cells, shape: Shape) -> int:
    """Number of contiguous runs that the cells are in a C-contiguous array of ``shape``.

    >>> n_runs(Cells((1, 0), (1, 1), (2, 4)), (9, 4)), n_runs(Cells((1, 0), (1, 1), (2, 3)), (9, 4))
    (1, 2)
    """
    run = 1
    for extent, step, whole in zip(reversed(cells.shape), reversed(cells.steps), reversed(shape), strict=True):
        if step != 1 and extent != 1:
            break
        run *= extent
        if extent != whole:
            break
    return prod(cells.shape) // max(run, 1)
