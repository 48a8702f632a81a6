"""The grid of devices as a value: its shape, axis names, and the process of each device; needs no running process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from spmd_grid.errors import AxisError, DeviceError, GridError
from spmd_grid.formatting import count_text
from spmd_grid.grid.box import as_ints, multi_index, row_major
from spmd_grid.typing import Axis, GridAxes, MultiIndex, Shape

__all__ = ["Grid", "near_square", "resolve_shape"]

_FEW = 1024  # devices, whose processes are looked up in a dictionary


@dataclass(frozen=True, repr=False)
class Grid:
    """An N-d array of devices, numbered row-major by their *linear index*.

    Local.  ``axis_names``: one per axis, or None.  ``ranks``: the process of each device by linear index; None
    if device i is process i.  No method enumerates all devices, so a grid of millions is as cheap as a small one.
    Raises GridError.

    >>> grid = Grid((2, 3), axis_names=("x", "y"))
    >>> grid
    Grid((2, 3), axis_names=('x', 'y'))
    >>> grid.axes(["y", 0]), grid.linear_index((1, 2)), grid.multi_index(5)
    ((1, 0), 5, (1, 2))
    """

    shape: Shape
    axis_names: tuple[str, ...] | None = None
    ranks: tuple[int, ...] | None = None

    if TYPE_CHECKING:  # what callers may pass; the fields hold tuples

        def __init__(
            self, shape: Sequence[int], axis_names: Sequence[str] | None = None, ranks: Sequence[int] | None = None
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _check_shape(self.shape))
        if self.axis_names is not None:
            object.__setattr__(self, "axis_names", self._check_axis_names(self.axis_names))
        if self.ranks is not None:
            object.__setattr__(self, "ranks", self._check_ranks(self.ranks))

    def _check_axis_names(self, axis_names: object) -> tuple[str, ...]:
        names = tuple(axis_names) if isinstance(axis_names, list | tuple) else ()
        if len(names) != self.ndim or not all(isinstance(name, str) and name for name in names):
            raise GridError(
                f"axis_names is {axis_names!r}; it must list {count_text(self.ndim, 'name')}, one per axis of"
                f" {self.shape}"
            )
        if len(set(names)) != len(names):
            raise GridError(f"axis_names is {axis_names!r}; names must differ from each other")
        return names

    def _check_ranks(self, ranks: object) -> tuple[int, ...] | None:
        if isinstance(ranks, np.ndarray) and self._is_permutation(ranks):
            if bool(np.all(ranks == np.arange(self.size))):
                return None
            numbers = self.__dict__["rank_numbers"] = ranks.astype(np.int64)
            numbers.flags.writeable = False
            return tuple(numbers.tolist())
        checked = as_ints(ranks)
        if checked is None or min(checked, default=0) < 0:
            raise GridError(f"ranks is {ranks!r}; it must list process numbers, integers from 0")
        if len(checked) != self.size:
            raise GridError(f"ranks lists {len(checked)} processes; a grid of {_by(self.shape)} needs {self.size}")
        if len(set(checked)) != len(checked):
            raise GridError(f"ranks is {ranks!r}; a process must not be two devices of a grid")
        return None if checked == tuple(range(self.size)) else checked

    def _is_permutation(self, ranks: np.ndarray) -> bool:
        """Whether ``ranks`` lists each number below that of devices once; numpy looks, so large grids are quick."""
        if ranks.shape != (self.size,) or ranks.dtype.kind not in "iu" or ranks.min() < 0 or ranks.max() >= self.size:
            return False
        return bool(np.all(np.bincount(ranks.astype(np.int64), minlength=self.size) == 1))

    @cached_property
    def rank_numbers(self) -> np.ndarray:
        """The process of each device, by linear index; not to be written to."""
        return np.arange(self.size) if self.ranks is None else np.asarray(self.ranks)

    @property
    def grid(self) -> Grid:
        """This grid; a ProcessGrid has a property of the same name."""
        return self

    @property
    def ndim(self) -> int:
        """Number of grid axes."""
        return len(self.shape)

    @cached_property
    def size(self) -> int:
        """Number of devices."""
        return math.prod(self.shape)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """The difference between the linear indices of neighbours along each axis."""
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(self.ndim))

    def axes(self, grid_axes: GridAxes, what: str = "grid_axes") -> tuple[int, ...]:
        """The numbers of axes given by number or name, in the order given.

        Local.  ``what`` names the argument in error messages.  Raises AxisError for an axis that is unknown, negative,
        out of range or listed twice, and for a single axis in place of a list.
        """
        if not isinstance(grid_axes, Sequence) or isinstance(grid_axes, str | bytes):
            listed = as_ints(grid_axes)  # numpy arrays are no registered sequences
            if listed is None:
                raise AxisError(f"{what} is {grid_axes!r}; it must be a list of axes of the grid {self}, such as [0]")
            grid_axes = listed
        axes = tuple([self._axis_number(axis, grid_axes, what) for axis in grid_axes])
        if len(set(axes)) != len(axes):
            raise AxisError(f"{what} is {list(grid_axes)}; an axis must not be listed twice")
        for axis in axes:
            if not 0 <= axis < self.ndim:
                raise AxisError(f"{what} is {list(grid_axes)}; axes of the grid {self} go from 0 to {self.ndim - 1}")
        return axes

    def _axis_number(self, axis: Axis, grid_axes: GridAxes, what: str) -> int:
        if isinstance(axis, str):
            names = self.axis_names or ()
            if axis in names:
                return names.index(axis)
            known = f"its axes are {', '.join(names)}" if names else "its axes have no names, only numbers"
            raise AxisError(f"{what} is {list(grid_axes)}; the grid {self} has no axis {axis!r}: {known}")
        number = as_ints((axis,))
        if number is None:
            raise AxisError(f"{what} is {list(grid_axes)}; {axis!r} is neither the number nor the name of a grid axis")
        return number[0]

    def grid_shape(self, axes: GridAxes | None = None) -> Shape:
        """The sizes of ``axes`` in the order given; of all axes for None or an empty list.

        Local.  Raises AxisError.

        >>> Grid((3, 4, 5)).grid_shape([2, 0])
        (5, 3)
        """
        return tuple([self.shape[axis] for axis in self._axes_or_all(axes)])

    def linear_index(self, coords: Sequence[int]) -> int:
        """The row-major index of the device at ``coords``.  Local.  Raises DeviceError."""
        return row_major(self.check_coords(coords), self.shape)

    def multi_index(self, linear: int, axes: GridAxes | None = None) -> MultiIndex:
        """The coordinates of device ``linear`` on ``axes`` in the order given; on all axes for None or an empty list.

        Local.  Raises DeviceError and AxisError.

        >>> Grid((3, 4, 5)).multi_index(24), Grid((3, 4, 5)).multi_index(24, [2, 0])
        ((1, 0, 4), (4, 1))
        """
        coords = multi_index(self._check_linear(linear), self.shape)
        return tuple([coords[axis] for axis in self._axes_or_all(axes)])

    def process(self, linear: int) -> int:
        """The process that is device ``linear``.  Local.  Raises DeviceError."""
        linear = self._check_linear(linear)
        return linear if self.ranks is None else self.ranks[linear]

    def device_of_process(self, process: int) -> int | None:
        """The linear index of the device that ``process`` is, or None if it is not in this grid.  Local."""
        if self.ranks is None:
            return process if 0 <= process < self.size else None
        if self._devices is not None:
            return int(self._devices[process]) if 0 <= process < self.size else None
        return self._device_by_process.get(process)

    def coords_of_process(self, process: int) -> MultiIndex | None:
        """The coordinates of the device that ``process`` is, or None if it is not in this grid.  Local.

        >>> Grid((2, 3)).coords_of_process(4), Grid((2, 3)).coords_of_process(6)
        ((1, 1), None)
        """
        device = self.device_of_process(process)
        return None if device is None else multi_index(device, self.shape)

    @cached_property
    def _devices(self) -> np.ndarray | None:
        """The device of each process of a large grid whose ranks are 0 to size - 1 in some order; else None."""
        if self.size <= _FEW or not self._is_permutation(self.rank_numbers):
            return None
        found = np.empty(self.size, np.int64)
        found[self.rank_numbers] = np.arange(self.size)
        return found

    @cached_property
    def _device_by_process(self) -> dict[int, int]:
        return dict(zip(self.ranks or (), range(self.size)))

    def neighbors_linear_indices(self, coords: Sequence[int], split_axes: GridAxes) -> tuple[int, int]:
        """``(down, up)``: the devices before and after in the row-major order of ``split_axes``; -1 if there is none.

        Local.  The order never wraps around.  Raises DeviceError and AxisError.

        >>> Grid((3, 4, 5)).neighbors_linear_indices((1, 0, 4), [1])
        (-1, 29)
        """
        coords, axes = self.check_coords(coords), self.axes(split_axes, "split_axes")
        sizes = [self.shape[axis] for axis in axes]
        here = row_major([coords[axis] for axis in axes], sizes)

        def device(position: int) -> int:
            if not 0 <= position < math.prod(sizes):
                return -1
            moved = list(coords)
            for axis, digit in zip(axes, multi_index(position, sizes), strict=True):
                moved[axis] = digit
            return row_major(moved, self.shape)

        return device(here - 1), device(here + 1)

    def is_like(self, other: Grid) -> bool:
        """Whether every process has the same coordinates on both grids; axis names may differ.  Local.

        >>> Grid((2, 3), axis_names=("x", "y")).is_like(Grid((2, 3))), Grid((2,)).is_like(Grid((2,), ranks=(1, 0)))
        (True, False)
        """
        return self.shape == other.shape and (self.ranks is other.ranks or self.ranks == other.ranks)

    def check_coords(self, coords: Sequence[int]) -> MultiIndex:
        """``coords`` as a tuple of ints, if a device has them.  Local.  Raises DeviceError."""
        checked = as_ints(coords)
        if (
            checked is None
            or len(checked) != self.ndim
            or not all(0 <= coord < size for coord, size in zip(checked, self.shape, strict=True))
        ):
            raise DeviceError(
                f"coords is {coords!r}; a device of the grid {self} has {self.ndim} integer coordinates, "
                f"each from 0 to below the size of its axis in {self.shape}"
            )
        return checked

    def _check_linear(self, linear: int) -> int:
        checked = as_ints((linear,))
        if checked is None or not 0 <= checked[0] < self.size:
            raise DeviceError(f"linear index is {linear!r}; devices of the grid {self} go from 0 to {self.size - 1}")
        return checked[0]

    def _axes_or_all(self, axes: GridAxes | None) -> Sequence[int]:
        checked = () if axes is None else self.axes(axes, "axes")
        return checked or range(self.ndim)

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.axis_names, self.ranks))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Grid], tuple[object, ...]]:  # hashes of names differ between processes
        return Grid, (self.shape, self.axis_names, self.ranks)

    def __str__(self) -> str:
        return _by(self.shape) + (f" ({', '.join(self.axis_names)})" if self.axis_names else "")

    def __repr__(self) -> str:
        names = f", axis_names={self.axis_names}" if self.axis_names else ""
        return f"Grid({self.shape}{names}{f', ranks={self.ranks}' if self.ranks else ''})"


def resolve_shape(shape: Sequence[int], n_processes: int) -> Shape:
    """The grid shape for ``n_processes``, where entries of ``shape`` may be -1.

    Local.  The other sizes must divide the number of processes; the quotient is spread over the -1 entries by
    :func:`near_square`, the larger factors first.  Without a -1 a grid may have fewer devices than there are processes.
    Raises GridError.

    >>> resolve_shape((2, -1), 6), resolve_shape((-1, -1), 6), resolve_shape((2, 2), 6)
    ((2, 3), (3, 2), (2, 2))
    """
    entries = as_ints(shape) or ()
    n_unknown = entries.count(-1)
    there = "there is 1" if n_processes == 1 else f"there are {n_processes}"
    if n_unknown:
        others = [entry for entry in entries if entry != -1]
        known = math.prod(_check_shape(others, _OR_ANY, shape)) if others else 1
        if n_processes < 1 or n_processes % known:
            raise GridError(f"grid shape is {shape!r}; it needs a multiple of {known} processes; {there}")
        factors = iter(near_square(n_processes // known, n_unknown))
        return tuple([next(factors) if entry == -1 else entry for entry in entries])
    checked = _check_shape(shape, _OR_ANY)
    if math.prod(checked) > n_processes:
        raise GridError(f"a grid of {_by(checked)} needs {math.prod(checked)} processes; {there}")
    return checked


@cache
def near_square(size: int, n_factors: int) -> tuple[int, ...]:
    """``n_factors`` factors of ``size``, as equal as its divisors allow, the larger ones first.

    Local.  The first factor is the smallest that the largest one can be, then the second, and so on (the purpose of
    MPI_Dims_create).

    >>> near_square(12, 2), near_square(12, 3), near_square(7, 2)
    ((4, 3), (3, 2, 2), (7, 1))
    """
    if n_factors == 1:
        return (size,)
    small = [factor for factor in range(1, math.isqrt(size) + 1) if size % factor == 0]
    for largest in chain(small, (size // factor for factor in reversed(small))):
        if largest**n_factors >= size:
            rest = near_square(size // largest, n_factors - 1)
            if rest[0] <= largest:
                return largest, *rest
    raise AssertionError(f"{size} has the factor {size}")


_OR_ANY = ", or -1 for what the number of processes leaves"


def _check_shape(shape: object, rule: str = "", found: object = None) -> Shape:
    checked = as_ints(shape)
    if not checked or min(checked) < 1:
        found = shape if found is None else found
        raise GridError(f"grid shape is {found!r}; it must list at least one size, each an integer of at least 1{rule}")
    return checked


def _by(shape: Shape) -> str:
    return "x".join(map(str, shape))
