"""Layouts: a sharding with a global shape, validated once, which gives the cells of every device.

Along one dimension, for a halo of 1 below and 2 above (o: core, h: halo in the domain, x: halo outside):

    global     0 1 2 3 4 5 6
    device 0 x o o o h h            local_box -1:5   core_in_local 1:4   in_domain_local 1:6
    device 1       h o o o h x
    device 2             h o x x
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from spmd_grid.errors import ShardingError
from spmd_grid.grid.box import Box, multi_index
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["Layout"]

_MOST_CORES = 1024


@dataclass(frozen=True)
class Layout:
    """A sharding and a global shape that fit each other.

    Local.  Raises ShardingError if they do not fit.

    >>> layout = Layout(Sharding(Grid((3,)), [[0]], halo_sizes=[1, 2]), (7,))
    >>> str(layout.local_box((0,))), str(layout.core_in_local((0,))), str(layout.in_domain_local((0,)))
    ('[-1:5]', '[1:4]', '[1:6]')
    """

    sharding: Sharding
    global_shape: Shape

    def __post_init__(self) -> None:
        object.__setattr__(self, "global_shape", self.sharding.check_global_shape(self.global_shape))

    @cached_property
    def _hash(self) -> int:
        return hash((self.sharding, self.global_shape))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, object]:  # without the hash: hashes of names differ between processes
        return {"sharding": self.sharding, "global_shape": self.global_shape}

    @property
    def grid(self) -> Grid:
        """The grid of the sharding."""
        return self.sharding.grid

    @property
    def ndim(self) -> int:
        """Number of tensor dimensions."""
        return len(self.global_shape)

    @property
    def domain_box(self) -> Box:
        """All cells of the global array."""
        return Box.from_shape(self.global_shape)

    def core_box(self, coords: MultiIndex) -> Box:
        """The cells that the device at ``coords`` owns, in global coordinates.  Local.  Raises DeviceError."""
        coords, known = tuple(coords), self._cores
        found = known.get(coords)
        if found is None:
            if len(known) >= _MOST_CORES:
                known.clear()
            found = known[coords] = self.sharding.core_box(self.global_shape, coords)
        return found

    @cached_property
    def _cores(self) -> dict[MultiIndex, Box]:
        """The cores that were computed last: plans ask for those of a few devices again and again."""
        return {}

    def local_box(self, coords: MultiIndex) -> Box:
        """The cells of the local array, core and halos, in global coordinates; may exceed the domain.  Local."""
        core = self.core_box(coords)
        return core if self.sharding.halo_sizes is None else core.grow(self._halo(0), self._halo(1))

    def local_shape(self, coords: MultiIndex) -> Shape:
        """The shape of the local array of the device at ``coords``, halos included.  Local."""
        return self.local_box(coords).shape

    def core_in_local(self, coords: MultiIndex) -> Box:
        """The cells of the core, in coordinates of the local array.  Local."""
        box = Box.from_shape(self.core_box(coords).shape)
        return box if self.sharding.halo_sizes is None else box.shift(self._halo(0))

    def core_key(self, coords: MultiIndex) -> tuple[Any, ...]:
        """The index of the core in a local array; its views stay arrays where they have no dimensions.  Local."""
        known = self._core_keys
        found = known.get(coords)
        if found is None:
            if len(known) >= _MOST_CORES:
                known.clear()
            found = known[coords] = (..., *self.core_in_local(coords).slices())
        return found

    @cached_property
    def _core_keys(self) -> dict[MultiIndex, tuple[Any, ...]]:
        """The indices that were asked for last: every operation on an array with halos asks."""
        return {}

    def in_domain_local(self, coords: MultiIndex) -> Box:
        """The cells of the local array that lie in the domain, in coordinates of the local array.  Local."""
        local = self.local_box(coords)
        return local.intersect(self.domain_box).relative_to(local.starts)

    def is_owner(self, coords: MultiIndex) -> bool:
        """Whether the device at ``coords`` holds the first copy: coordinate 0 on all replicated axes.

        Local.  The cores of owners that share their coordinates on partial axes tile the domain.
        """
        coords = self.grid.check_coords(coords)
        return all(coords[axis] == 0 for axis in self.sharding.replicated_axes)

    def owners(self, box: Box) -> Iterator[tuple[MultiIndex, Box]]:
        """``(coords, piece)`` of each device whose core overlaps ``box``: the common cells.  The pieces tile ``box``.

        Local.  Coordinates on replicated and partial axes are 0.  Found in closed form, in row-major order of blocks:
        the cost is proportional to the number of blocks from the first to the last that overlap.  ``box`` must lie in
        the domain.

        >>> layout = Layout(Sharding(Grid((2, 3)), [[1]]), (7,))
        >>> [(coords, str(piece)) for coords, piece in layout.owners(Box((2,), (5,)))]
        [((0, 0), '[2:3]'), ((0, 1), '[3:5]')]
        """
        assert self.domain_box.contains(box), f"{box} is not in {self.domain_box}"
        if box.is_empty:
            return
        overlaps = [list(self._overlapping(dim, box.starts[dim], box.stops[dim])) for dim in range(self.ndim)]
        for pieces in product(*overlaps):
            coords = [0] * self.grid.ndim
            for dim, (digits, _, _) in enumerate(pieces):
                for axis, digit in zip(self.sharding.axes_of(dim), digits, strict=True):
                    coords[axis] = digit
            starts, stops = tuple([start for _, start, _ in pieces]), tuple([stop for _, _, stop in pieces])
            yield tuple(coords), Box(starts, stops)

    def _overlapping(self, dim: int, start: int, stop: int) -> Iterator[tuple[MultiIndex, int, int]]:
        """The blocks of one dimension that overlap cells ``[start, stop)``: their digits and the common cells."""
        extent, sizes = self.global_shape[dim], self.sharding.sizes_of(dim)
        first, last = (self.sharding.position(dim, extent, cell) for cell in (start, stop - 1))
        for position in range(first, last + 1):
            digits = multi_index(position, sizes)
            low, high = self.sharding.block(dim, extent, digits)
            if low < high:
                yield digits, max(low, start), min(high, stop)

    def check_addressable(self, itemsize: int) -> None:
        """Refuse a layout of which one process might hold more bytes than memory has addresses.

        Local, with the same outcome on all processes.  Raises ShardingError.
        """
        most = [max(n + sum(self.sharding.halo_of(dim)), 1) for dim, n in enumerate(self.global_shape)]
        if prod(most) * max(itemsize, 1) > sys.maxsize:
            raise ShardingError(
                f"global_shape is {self.global_shape}, with halos at most {tuple(most)}, of {itemsize} bytes per cell:"
                f" more than the {sys.maxsize} bytes that memory has addresses for"
            )

    def _halo(self, side: int) -> tuple[int, ...]:
        return tuple([self.sharding.halo_of(dim)[side] for dim in range(self.ndim)])

    def __str__(self) -> str:
        return f"{self.sharding}, global shape {self.global_shape}"
