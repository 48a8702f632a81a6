"""The pattern of a halo: the owner of each of its cells, in any number of dimensions; pure geometry.

The cells themselves are copied by the channel that `halo/plan/channels.py` makes of it.

A local array is a product of lines, so the cells that one owner has are products of the runs along each dimension
(`halo/geometry/line.py`).  A device with low and high halos of 1 in the middle of a 3 x 3 grid takes from all others
(corners), or from those that it shares a side with (star):

    0 | 1 | 2          . | 1 | .
    --+---+--          --+---+--
    3 | o | 5          3 | o | 5
    --+---+--          --+---+--
    6 | 7 | 8          . | 7 | .
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from operator import attrgetter
from typing import NamedTuple, cast

from spmd_grid.grid.box import Box, multi_index, row_major
from spmd_grid.grid.cells import Cells
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.halo.geometry.boundary import LEAVE, WRAP, Rule, as_boundary, as_periodic, is_constant, is_function
from spmd_grid.halo.geometry.line import Line, Run
from spmd_grid.typing import MultiIndex

__all__ = ["Edge", "Fill", "Give", "HaloPattern", "Take"]


class Take(NamedTuple):
    """Halo cells of a device that one owner has.

    ``owner``: its linear index in the grid.  ``box``: in this device's local array.  ``source``: the cells of
    ``box`` in the owner's local array, always in its core; an extent of 1 has step 1.
    """

    owner: int
    box: Box
    source: Cells


class Give(NamedTuple):
    """Cells of a device's core that go into the halo of a device, which may be itself.

    ``taker``: its linear index in the grid.  ``cells``: in this device's local array, as in the taker's `Take`.
    """

    taker: int
    cells: Cells


class Fill(NamedTuple):
    """Halo cells outside the domain that get one value; ``box`` lies in the local array."""

    box: Box
    value: complex


class Edge(NamedTuple):
    """Halo cells outside the domain that a boundary function sets.

    They lie beyond the low (``side`` 0) or high (1) end of dimension ``dim``; ``box`` lies in the local array.
    """

    dim: int
    side: int
    box: Box
    function: Callable


@dataclass(frozen=True)
class HaloPattern:
    """The contents of every device's halo cells: cells of other devices, a constant, or values set by a function.

    Plans only.  ``layout`` carries the halo sizes.  ``periodic`` and ``boundary``: as `as_periodic` and `as_boundary`
    take them; a periodic dimension wraps around whatever its boundary.  ``corners``: False for the star, the halo
    cells that lie outside the core in one dimension only.  Raises ShapeError and ShardingError.

    A cell outside the domain in several dimensions is left if one of these leaves it or has a function; otherwise it
    gets the constant of the last one that has one; otherwise the cell that all of them together lead to, as with
    numpy.pad.  A rule that copies has nothing to copy from an empty dimension, and leaves.  Owners share the
    device's coordinates on all axes that do not split.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> layout = Layout(Sharding(Grid((2,)), [[0]], halo_sizes=[2, 2]), (6,))
    >>> pattern = HaloPattern(layout, boundary=[("reflect", 0.5)])
    >>> for take in pattern.takes((0,)): print(take.owner, take.box, take.source)
    0 [0:2] Cells(starts=(4,), steps=(-1,), shape=(2,))
    1 [5:7] Cells(starts=(2,), steps=(1,), shape=(2,))
    >>> for give in pattern.gives((0,)): print(give.taker, give.cells)
    0 Cells(starts=(4,), steps=(-1,), shape=(2,))
    1 Cells(starts=(3,), steps=(1,), shape=(2,))
    >>> [(str(fill.box), fill.value) for fill in pattern.fills((1,))]
    [('[5:7]', 0.5)]
    """

    layout: Layout
    periodic: tuple[bool, ...] = False  # type: ignore[assignment]  # __post_init__ makes it a tuple
    corners: bool = True
    boundary: tuple[tuple[Rule, Rule], ...] = LEAVE  # type: ignore[assignment]  # as ``periodic``

    def __post_init__(self) -> None:
        object.__setattr__(self, "periodic", as_periodic(self.periodic, self.layout.ndim))
        object.__setattr__(self, "boundary", as_boundary(self.boundary, self.layout.ndim))

    def takes(self, coords: MultiIndex) -> tuple[Take, ...]:
        """The halo cells that the device at ``coords`` copies from owners, itself perhaps among them.

        Plans only.  The boxes are disjoint.  The cost is that of the boxes, times the logarithm of the lines' lengths.
        Raises DeviceError.
        """
        coords, positions = self._check(coords)
        runs_by_dim = [list(line.runs(position)) for line, position in zip(self._lines, positions, strict=True)]
        return tuple(
            [
                Take(self._device(coords, [run.owner for run in runs]), _target(runs), self._source(runs))
                for runs in self._halo_products(runs_by_dim)
            ]
        )

    def gives(self, coords: MultiIndex) -> tuple[Give, ...]:
        """The cells that devices, perhaps itself among them, copy from the device at ``coords``, sorted by taker.

        Plans only.  For each taker they are in the order in which its :meth:`takes` lists them.  The cost is that of
        the boxes given, times the logarithm of the lines' lengths.  Raises DeviceError.
        """
        coords, positions = self._check(coords)
        found = []
        takers_by_dim = [list(line.takers(position)) for line, position in zip(self._lines, positions, strict=True)]
        for takers in product(*takers_by_dim):
            device = self._device(coords, [taker for taker, _ in takers])
            found += [Give(device, self._source(runs)) for runs in self._halo_products([runs for _, runs in takers])]
        return tuple(sorted(found, key=attrgetter("taker")))

    def fills(self, coords: MultiIndex) -> tuple[Fill, ...]:
        """The halo cells that get a constant.  Plans only.  The boxes are disjoint.  Raises DeviceError."""
        _, positions = self._check(coords)

        def across(dim: int, other: int) -> tuple[int, int]:
            line, position = self._lines[other], positions[other]
            if not self.corners:
                return line.core(position)
            # Where constants overlap, the last dimension's counts.
            return line.copied_or_filled(position) if other < dim else line.copied(position)

        return tuple(
            [Fill(box, cast(complex, rule)) for _, _, rule, box in self._sides(positions, is_constant, across)]
        )

    def edges(self, coords: MultiIndex) -> tuple[Edge, ...]:
        """The cells that functions set, in the order of the calls: by dimension, the low side first.

        Plans only.  Call them when all other cells are set.  They extend over the whole local array in the other
        dimensions, over the core for the star.  Raises DeviceError.
        """
        _, positions = self._check(coords)

        def across(dim: int, other: int) -> tuple[int, int]:
            line, position = self._lines[other], positions[other]
            return (0, line.extent(position)) if self.corners else line.core(position)

        return tuple(
            [
                Edge(dim, side, box, cast(Callable, rule))
                for dim, side, rule, box in self._sides(positions, is_function, across)
            ]
        )

    @cached_property
    def _lines(self) -> tuple[Line, ...]:
        """The line of devices that the axes of each tensor dimension make."""
        sharding, lines = self.layout.sharding, []
        for dim, extent in enumerate(self.layout.global_shape):
            rules = (WRAP, WRAP) if self.periodic[dim] else self.boundary[dim]
            lines.append(Line(_BlockStarts(sharding, dim, extent), *sharding.halo_of(dim), rules))
        return tuple(lines)

    def _check(self, coords: MultiIndex) -> tuple[MultiIndex, list[int]]:
        """``coords``, and the position of that device in its line of each tensor dimension."""
        sharding = self.layout.sharding
        coords = self.layout.grid.check_coords(coords)
        return coords, [
            row_major([coords[axis] for axis in sharding.axes_of(dim)], sharding.sizes_of(dim))
            for dim in range(self.layout.ndim)
        ]

    def _device(self, coords: MultiIndex, positions: Sequence[int]) -> int:
        """The linear index of the device at ``positions`` in the lines through ``coords``."""
        sharding, moved = self.layout.sharding, list(coords)
        for dim, position in enumerate(positions):
            for axis, digit in zip(sharding.axes_of(dim), multi_index(position, sharding.sizes_of(dim)), strict=True):
                moved[axis] = digit
        return row_major(moved, self.layout.grid.shape)

    def _halo_products(self, runs_by_dim: Sequence[Sequence[Run]]) -> Iterator[tuple[Run, ...]]:
        """One run of each dimension, in all combinations that are cells of the halo."""
        for runs in product(*runs_by_dim):
            in_halos = sum([run.is_halo for run in runs])
            if in_halos == 1 or (in_halos and self.corners):
                yield runs

    def _source(self, runs: Sequence[Run]) -> Cells:
        """The product of the runs in the local array of their owner."""
        starts = [line.low + run.start - line.starts[run.owner] for line, run in zip(self._lines, runs, strict=True)]
        return Cells(tuple(starts), tuple([run.step for run in runs]), tuple([run.count for run in runs]))

    def _sides(
        self, positions: Sequence[int], wanted: Callable, across: Callable
    ) -> Iterator[tuple[int, int, Rule, Box]]:
        """The ``(dim, side, rule, box)`` of each side whose rule is ``wanted`` and that has cells outside the domain.

        ``across(dim, other)``: the part of dimension ``other`` that they extend over.
        """
        for dim, line in enumerate(self._lines):
            for side, rule in enumerate(line.rules):
                if not wanted(rule):
                    continue
                intervals = [across(dim, other) for other in range(self.layout.ndim)]
                intervals[dim] = line.outside(positions[dim], side)
                box = Box(tuple([start for start, _ in intervals]), tuple([stop for _, stop in intervals]))
                if not box.is_empty:
                    yield dim, side, rule, box


class _BlockStarts(Sequence[int]):
    """The start of every block of one tensor dimension by position, then the end; computed when asked for.

    A line may have as many devices as the grid, and only few of them matter to any one device.
    """

    def __init__(self, sharding: Sharding, dim: int, extent: int):
        self._sharding, self._dim, self._extent = sharding, dim, extent
        self._sizes = sharding.sizes_of(dim)
        self._length = math.prod(self._sizes) + 1

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> int:  # type: ignore[override]  # slices are not needed
        if position in (-1, self._length - 1):
            return self._extent
        return self._sharding.block(self._dim, self._extent, multi_index(position, self._sizes))[0]


def _target(runs: Sequence[Run]) -> Box:
    """The product of the runs in the local array of the device that takes them."""
    return Box(tuple([run.at for run in runs]), tuple([run.at + run.count for run in runs]))
