"""Shardings: frozen values that say how a tensor is spread over a grid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from spmd_grid.errors import AxisError, DTypeError, GridError, ReductionError, ShardingError
from spmd_grid.grid.blocks import block_interval, block_position, check_offsets, check_policy
from spmd_grid.grid.box import Box, as_ints
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.open import OPEN
from spmd_grid.grid.starts import BlockStarts, Starts
from spmd_grid.reduction_kind import KINDS, as_reduction, result_dtype
from spmd_grid.typing import GridAxes, Shape, SplitAxes

__all__ = ["HasGrid", "Sharding"]


class HasGrid(Protocol):
    """A `Grid`, or a `ProcessGrid`: a sharding keeps the pure geometry of it."""

    @property
    def grid(self) -> Grid: ...


@dataclass(frozen=True, repr=False)
class Sharding:
    """The grid axes that split each tensor dimension, major to minor; the tensor is replicated along all other axes.

    Local.  A dimension is *sharded* when its list is not empty.  ``halo_sizes`` gives (low, high) cells per sharded
    dimension, ``sharded_dims_offsets`` the start of every shard and the end; both as one flat list or as a list per
    sharded dimension.  Along ``partial_axes`` devices hold partial results, to be combined by ``partial_kind``.
    A list that ends with `OPEN` leaves its dimension to propagation (``open_dims``): such a sharding annotates values
    of programs, and cuts no array.  Shardings that mean the same are equal: axes may be given by name, trailing lists
    may be empty, halos may be 0, a block policy beside offsets has no effect, an empty list stands for None.  Raises
    AxisError, ShardingError, ReductionError and GridError.

    >>> s = Sharding(Grid((2, 3)), [[0], [1]], halo_sizes=[1, 1, 0, 2])
    >>> print(s)
    [[0],[1]] on 2x3, halo [(1, 1), (0, 2)]
    >>> s.core_shape((5, 7), (1, 2)), s.local_shape((5, 7), (1, 2)), s.core_slices((5, 7), (1, 2))
    ((2, 1), (4, 3), (slice(3, 5, None), slice(6, 7, None)))
    """

    grid: Grid
    split_axes: tuple[tuple[int, ...], ...]
    _: KW_ONLY
    blocks: str = "ceil"
    halo_sizes: tuple[tuple[int, int], ...] | None = None
    sharded_dims_offsets: tuple[BlockStarts, ...] | None = None
    partial_axes: tuple[int, ...] = ()
    partial_kind: str = "sum"
    open_dims: tuple[int, ...] = ()

    if TYPE_CHECKING:  # what callers may pass; the fields hold tuples

        def __init__(
            self,
            grid: HasGrid,
            split_axes: SplitAxes,
            *,
            blocks: str = "ceil",
            halo_sizes: Sequence[int] | Sequence[Sequence[int]] | None = None,
            sharded_dims_offsets: Sequence[int] | Sequence[Sequence[int]] | None = None,
            partial_axes: GridAxes = (),
            partial_kind: str = "sum",
            open_dims: Sequence[int] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        def store(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        store("grid", _pure_grid(self.grid))
        split_axes, open_dims = _without_open(self.split_axes)
        store("split_axes", _check_split_axes(self.grid, split_axes))
        store("open_dims", tuple(sorted({*open_dims, *self.open_dims})))
        store("partial_axes", tuple(sorted(self.grid.axes(self.partial_axes, "partial_axes"))))
        self._refuse_axis_used_twice()
        partial_kind = _check_partial_kind(self.partial_kind)
        store("partial_kind", partial_kind if self.partial_axes else "sum")
        store("halo_sizes", _check_halo_sizes(self.halo_sizes, len(self.sharded_dims)))
        sizes = [self.sizes_of(dim) for dim in self.sharded_dims]
        store("sharded_dims_offsets", _check_all_offsets(self.sharded_dims_offsets, sizes))
        policy = check_policy(self.blocks)
        store("blocks", policy if self.sharded_dims and self.sharded_dims_offsets is None else "ceil")

    def _refuse_axis_used_twice(self) -> None:
        used = [*chain.from_iterable(self.split_axes), *self.partial_axes]
        for axis in used:
            if used.count(axis) > 1:
                partial = f" and partial_axes {list(self.partial_axes)}" if self.partial_axes else ""
                raise AxisError(
                    f"split_axes {_lists(self.split_axes)}{partial} use grid axis {axis} twice; "
                    "an axis occurs at most once in a sharding"
                )

    @cached_property
    def _hash(self) -> int:
        values = [getattr(self, field.name) for field in fields(self)]
        return hash(tuple(values))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, object]:  # without the hash: hashes of names differ between processes
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @cached_property
    def sharded_dims(self) -> tuple[int, ...]:
        """The tensor dimensions that are split, including those split by axes of size 1 only."""
        return tuple(dim for dim, axes in enumerate(self.split_axes) if axes)

    @cached_property
    def replicated_axes(self) -> tuple[int, ...]:
        """The grid axes that neither split a dimension nor are partial."""
        used = {*chain.from_iterable(self.split_axes), *self.partial_axes}
        return tuple(axis for axis in range(self.grid.ndim) if axis not in used)

    def axes_of(self, dim: int) -> tuple[int, ...]:
        """The grid axes that split tensor dimension ``dim``; empty if none do.  Local."""
        return self.split_axes[dim] if 0 <= dim < len(self.split_axes) else ()

    def sizes_of(self, dim: int) -> tuple[int, ...]:
        """The sizes of :meth:`axes_of` ``dim``.  Local."""
        return tuple([self.grid.shape[axis] for axis in self.axes_of(dim)])

    def halo_of(self, dim: int) -> tuple[int, int]:
        """(low, high) halo cells of tensor dimension ``dim``.  Local."""
        return self.halo_sizes[self.sharded_dims.index(dim)] if self.halo_sizes and self.axes_of(dim) else (0, 0)

    def offsets_of(self, dim: int) -> BlockStarts | None:
        """The explicit offsets of tensor dimension ``dim``, or None if it is cut by a block policy.  Local."""
        offsets = self.sharded_dims_offsets
        return offsets[self.sharded_dims.index(dim)] if offsets and self.axes_of(dim) else None

    def local_shape(self, global_shape: Sequence[int], coords: Sequence[int]) -> Shape:
        """Shape of the local array of the device at ``coords``: its core and its halos (`core_shape` is without them).

        Local.  Raises ShardingError if the global shape does not fit, DeviceError if no device is at ``coords``.

        >>> Sharding(Grid((3,)), [[0]], halo_sizes=[1, 1]).local_shape((7, 4), (1,))
        (5, 4)
        """
        core = self.core_shape(global_shape, coords)
        return tuple([extent + sum(self.halo_of(dim)) for dim, extent in enumerate(core)])

    def shard_shape(self, global_shape: Sequence[int], coords: Sequence[int]) -> Shape:
        """The same as :meth:`local_shape`: shape of the local array, halos included.

        Local.  Raises as :meth:`local_shape`.  Not the shape that `shard_slices` selects, which is without halos.
        """
        return self.local_shape(global_shape, coords)

    def core_shape(self, global_shape: Sequence[int], coords: Sequence[int]) -> Shape:
        """Shape of the block that the device at ``coords`` owns, halos excluded.  Local.  Raises as `local_shape`."""
        return self.core_box(self.check_global_shape(global_shape), coords).shape

    def core_slices(self, global_shape: Sequence[int], coords: Sequence[int]) -> tuple[slice, ...]:
        """Slices of the global array that select the core of the device at ``coords``, halos excluded.

        Local.  They select an array of :meth:`core_shape`.  Raises as :meth:`local_shape`.

        >>> Sharding(Grid((3,)), [[0]], halo_sizes=[1, 1]).core_slices((7, 4), (1,))
        (slice(3, 6, None), slice(0, 4, None))
        """
        return self.core_box(self.check_global_shape(global_shape), coords).slices()

    def shard_slices(self, global_shape: Sequence[int], coords: Sequence[int]) -> tuple[slice, ...]:
        """The same as :meth:`core_slices`: slices of the core in the global array, halos excluded.

        Local.  Raises as :meth:`local_shape`.  Not slices of an array of `shard_shape`, which has halos.
        """
        return self.core_slices(global_shape, coords)

    def core_box(self, global_shape: Shape, coords: Sequence[int]) -> Box:
        """The cells that the device at ``coords`` owns, of a global shape that has already been checked.  Local."""
        coords = self.grid.check_coords(coords)
        digits = [[coords[axis] for axis in self.axes_of(dim)] for dim in range(len(global_shape))]
        intervals = [self.block(dim, extent, digits[dim]) for dim, extent in enumerate(global_shape)]
        return Box(tuple([start for start, _ in intervals]), tuple([stop for _, stop in intervals]))

    def block(self, dim: int, extent: int, digits: Sequence[int]) -> tuple[int, int]:
        """(start, stop) of the block whose coordinates on :meth:`axes_of` ``dim`` are ``digits``, of ``extent`` cells.

        Local.
        """
        return block_interval(extent, self.sizes_of(dim), digits, self.blocks, self.offsets_of(dim))

    def position(self, dim: int, extent: int, cell: int) -> int:
        """The row-major index over :meth:`axes_of` of the block that holds ``cell`` of ``extent`` cells.  Local."""
        return block_position(extent, self.sizes_of(dim), cell, self.blocks, self.offsets_of(dim))

    def check_global_shape(self, global_shape: Sequence[int]) -> Shape:
        """``global_shape`` as a tuple of ints, if this sharding can cut it.  Local.  Raises ShardingError."""
        shape = as_ints(global_shape)
        if self.open_dims:
            raise ShardingError(
                f"sharding {self} leaves dimensions {list(self.open_dims)} open; that is for annotations of programs"
            )
        if shape is None or min(shape, default=0) < 0:
            raise ShardingError(f"global_shape is {global_shape!r}; it must list extents, integers from 0")
        if len(self.split_axes) > len(shape):
            raise ShardingError(
                f"sharding {self} splits dimension {len(self.split_axes) - 1}, but global_shape {shape} "
                f"has {len(shape)} dimensions"
            )
        for dim, offsets in zip(self.sharded_dims, self.sharded_dims_offsets or ()):
            if offsets[-1] != shape[dim]:
                raise ShardingError(
                    f"sharded_dims_offsets of dimension {dim} end at {offsets[-1]}; "
                    f"they must cover its extent {shape[dim]} in global_shape {shape}"
                )
        return shape

    def check_dtype(self, op: str, dtype: np.dtype) -> None:
        """Refuse a dtype that partial values of this sharding cannot have.  Local.  Raises DTypeError."""
        if self.partial_axes:
            try:
                result_dtype(as_reduction(self.partial_kind), dtype, None)
            except DTypeError as error:
                raise DTypeError(f"{op}: {error}") from None

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        names = self.grid.axis_names or range(self.grid.ndim)
        rows: list[list[object]] = [[names[axis] for axis in self.axes_of(dim)] for dim in range(self._n_listed)]
        for dim in self.open_dims:
            rows[dim].append("?")
        parts = [f"{_lists(rows)} on {self.grid}"]
        if self.blocks != "ceil":
            parts.append(f"{self.blocks} blocks")
        if self.halo_sizes:
            parts.append(f"halo {list(self.halo_sizes)}")
        if self.sharded_dims_offsets:
            parts.append(f"offsets {_lists(self.sharded_dims_offsets)}")
        if self.partial_axes:
            parts.append(f"partial {self.partial_kind} over {_lists([self.partial_axes], names)[1:-1]}")
        return ", ".join(parts)

    @property
    def _n_listed(self) -> int:
        return max(len(self.split_axes), *[dim + 1 for dim in self.open_dims], 0)

    def __repr__(self) -> str:
        """The call that makes this value, without the defaults."""
        options = [
            f", {name}={value!r}"
            for name, default in ((field.name, field.default) for field in fields(self) if field.kw_only)
            if (value := getattr(self, name)) != default
        ]
        return f"Sharding({self.grid!r}, {_lists(self.split_axes)}{''.join(options)})"


def _lists(rows: Sequence[Sequence[Any]], names: Sequence[object] | None = None) -> str:
    """Rows as the dialect writes them: [[0],[1, 2]]; entries by name where ``names`` are given."""
    texts = (
        str(row)
        if isinstance(row, Starts)
        else ", ".join([str(entry if names is None else names[entry]) for entry in row])
        for row in rows
    )
    return f"[{','.join(f'[{text}]' for text in texts)}]"


def _pure_grid(grid: object) -> Grid:
    pure = getattr(grid, "grid", None)
    if not isinstance(pure, Grid):
        raise GridError(f"grid is {grid!r}; a sharding needs a Grid or a ProcessGrid")
    return pure


def _without_open(split_axes: SplitAxes) -> tuple[SplitAxes, list[int]]:
    """The lists of axes without the marks at their ends, and the dimensions that had one."""
    if not isinstance(split_axes, list | tuple):
        return split_axes, []
    lists: list[Any] = list(split_axes)  # whose entries are checked later
    dims = [dim for dim, axes in enumerate(lists) if isinstance(axes, list | tuple) and OPEN in axes[-1:]]
    return [axes[:-1] if dim in dims else axes for dim, axes in enumerate(lists)], dims


def _check_split_axes(grid: Grid, split_axes: SplitAxes) -> tuple[tuple[int, ...], ...]:
    if not isinstance(split_axes, list | tuple):
        raise AxisError(
            f"split_axes is {split_axes!r}; it must be a list per tensor dimension of grid axes, such as [[0], []]"
        )
    split = [grid.axes(axes, f"split_axes[{dim}]") for dim, axes in enumerate(split_axes)]
    while split and not split[-1]:
        split.pop()
    return tuple(split)


def _check_partial_kind(partial_kind: str) -> str:
    kind = as_reduction(partial_kind)
    if kind.is_average or kind.name not in KINDS:
        raise ReductionError(
            f"partial_kind is {kind.name!r}, which has no identity; a partial value needs a kind that has one"
        )
    return kind.name


def _rows(values: Iterable[object], lengths: Sequence[int], what: str, rule: str) -> list[BlockStarts]:
    """``values`` as one row per entry of ``lengths``; a flat list is cut into rows of these lengths."""
    try:
        flat, nested = as_ints(values), [row if isinstance(row, Starts) else as_ints(row) for row in values]
    except TypeError:
        raise ShardingError(f"{what} is {values!r}; {rule}") from None
    if flat is None:
        rows = [row for row in nested if row is not None]
        if not len(rows) == len(nested) == len(lengths):
            raise ShardingError(f"{what} is {values!r}; {rule}")
        return rows
    if len(flat) != sum(lengths):
        raise ShardingError(f"{what} has {len(flat)} entries; it must have {sum(lengths)}: {rule}")
    entries = iter(flat)
    return [tuple([next(entries) for _ in range(length)]) for length in lengths]


def _check_halo_sizes(halo_sizes: Iterable[object] | None, n_sharded: int) -> tuple[tuple[int, int], ...] | None:
    if halo_sizes is None or as_ints(halo_sizes) == ():
        return None
    rule = f"(low, high) for each of the {n_sharded} sharded dimensions, as pairs or one flat list of integers from 0"
    rows = _rows(halo_sizes, [2] * n_sharded, "halo_sizes", rule)
    if any(len(row) != 2 or min(row) < 0 for row in rows):
        raise ShardingError(f"halo_sizes is {halo_sizes!r}; it must have {rule}")
    return tuple([(low, high) for low, high in rows]) if any(map(any, rows)) else None


def _check_all_offsets(
    offsets: Iterable[object] | None, sizes: Sequence[Sequence[int]]
) -> tuple[BlockStarts, ...] | None:
    if offsets is None or as_ints(offsets) == ():
        return None
    lengths = [math.prod(row) + 1 for row in sizes]
    rule = f"the start of every shard, and the end, for each of the {len(sizes)} sharded dimensions"
    rows = _rows(offsets, lengths, "sharded_dims_offsets", rule)
    return tuple(check_offsets(row, size) for row, size in zip(rows, sizes, strict=True)) or None
