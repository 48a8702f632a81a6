"""The copy table of a channel: which row copies what, in the order in which the channel's state counts them.

By source: rows out of its arrays, then rows out of its staging.  By reader: rows into staging.  By message neighbour:
rows out of the messages that come, then rows into those that go.  Then the own cells, and the constants.  Within each,
field after field, piece after piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from spmd_grid import kernels
from spmd_grid.grid.cells import Cells
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.typing import Shape

__all__ = ["ExchangeCells", "Taken", "c_strides", "copy_rows", "n_runs"]

Strides = tuple[int, ...]

# A row that copies nothing, where one is due but there is nothing to copy: no planes.
_NOTHING = kernels.BoxRow(0, 0, 0, 0, ((0, 0, 0), (1, 0, 0), (1, 0, 0), (1, 1, 1)))


class Taken(NamedTuple):
    """Cells of the array that they land in (``target``), from those (``source``) of an array of member ``place``."""

    member: int
    target: Cells
    source: Cells
    source_shape: Shape


class ExchangeCells(NamedTuple):
    """The cells of one exchange: given and taken by place, and the own ones."""

    gives: dict[int, list[Cells]]
    takes: dict[int, list[Taken]]
    own: list[Taken]


class _Side(NamedTuple):
    """One side of a copy: where its cells lie."""

    strides: Strides
    offset: int


def copy_rows(
    channel, moved: ExchangeCells, given: Sequence[Strides], taking: Sequence[Strides]
) -> Iterator[kernels.BoxRow]:
    """The rows for own arrays that cells are ``given`` from, and those ``taking`` them in: strides by field.  Local."""
    items = [dtype.itemsize for dtype in channel.dtypes]

    def out_of(f: int, cells: Cells) -> _Side:
        return _Side(cells.strides(given[f]), cells.offset(given[f]))

    def into(f: int, cells: Cells) -> _Side:
        return _Side(cells.strides(taking[f]), cells.offset(taking[f]))

    def out_of_packed(targets: Sequence[Cells], start: int) -> Iterator:
        for f, cells, packed in _packed(targets, items, start):
            yield _row(cells.shape, items[f], packed, into(f, cells)) if channel.lands else _NOTHING

    def into_packed(sources: Sequence[Cells], start: int) -> Iterator:
        for f, cells, packed in _packed(sources, items, start):
            yield _row(cells.shape, items[f], out_of(f, cells), packed)

    for place in channel.sources:
        takes = moved.takes[place]
        for f, item in enumerate(items):
            for take in takes:
                theirs = c_strides(take.source_shape, item)
                lent = _Side(take.source.strides(theirs), take.source.offset(theirs))
                yield _row(take.target.shape, item, lent, into(f, take.target)) if channel.lands else _NOTHING
        yield from out_of_packed([take.target for take in takes], 0)
    for place in channel.readers:
        yield from into_packed(moved.gives[place], channel.block.parts[place])
    for place in channel.receives:
        yield from out_of_packed([take.target for take in moved.takes[place]], at.MESSAGE_HEAD)
    for place in channel.sends:
        yield from into_packed(moved.gives[place], at.MESSAGE_HEAD)
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
    """(field, cells, where they lie) of pieces packed one after the other, field by field."""
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
    strides = []
    for extent in reversed(shape):
        strides.append(itemsize)
        itemsize *= extent
    return tuple(reversed(strides))


def n_runs(cells: Cells, shape: Shape) -> int:
    """In how many contiguous runs of a C-contiguous array of ``shape`` the cells lie.

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
