"""The terms of a manual computation: its shardings and its manual axes.  Every invariant is checked here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from spmd_grid.errors import AxisError, GridError, ShapeError, ShardingError
from spmd_grid.formatting import told_apart
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.typing import GridAxes, Shape

__all__ = ["Side", "Terms", "terms_of"]


@dataclass(frozen=True)
class Side:
    """One input or output: ``sharding`` as given, ``along``: the part of it that cuts by manual axes."""

    name: str
    sharding: Sharding
    along: Sharding
    replicated_axes: tuple[int, ...]

    def sizes(self, ndim: int) -> tuple[int, ...]:
        """The number of blocks along each dimension."""
        return tuple([prod(self.along.sizes_of(d)) for d in range(ndim)])

    def block_shape(self, shape: Shape) -> Shape:
        """The shape of every block of an array of global ``shape``.  Raises ShapeError and ShardingError."""
        self._check_ndim(len(shape))
        sizes = self.sizes(len(shape))
        for d, (n, parts) in enumerate(zip(shape, sizes)):
            if n % parts:
                raise ShapeError(
                    f"manual: dimension {d} of {self.name} has extent {n}, and its manual axes"
                    f" {list(self.along.axes_of(d))} cut it into {parts} blocks; blocks along manual axes must be even"
                )
        return tuple([n // parts for n, parts in zip(shape, sizes)])

    def local_shape(self, shape: Shape) -> Shape:
        """The shape of every block with its halos."""
        return tuple([n + sum(self.along.halo_of(d)) for d, n in enumerate(self.block_shape(shape))])

    def global_shape(self, block: Shape) -> Shape:
        """The global shape of an array of equal blocks of shape ``block``.  Raises ShardingError."""
        self._check_ndim(len(block))
        return tuple([n * parts for n, parts in zip(block, self.sizes(len(block)))])

    def _check_ndim(self, ndim: int) -> None:
        if len(self.sharding.split_axes) > ndim:
            raise ShardingError(
                f"manual: {self.name} is {self.sharding}, of {len(self.sharding.split_axes)} dimensions; the array has"
                f" {ndim}"
            )


@dataclass(frozen=True)
class Terms:
    """The terms of a manual computation.  ``manual_axes``: numbers, in the order of the grid."""

    body: Callable[..., Any]
    grid: Grid
    ins: tuple[Side, ...]
    outs: tuple[Side, ...]
    manual_axes: tuple[int, ...]
    returns_one: bool

    @property
    def name(self) -> str:
        """The name of the body."""
        return getattr(self.body, "__name__", type(self.body).__name__)


def terms_of(body: Any, in_shardings: Any, out_shardings: Any, manual_axes: GridAxes) -> Terms:
    """The terms, checked.  Plans only.  Raises GridError, AxisError and ShardingError."""
    if not callable(body):
        raise ShardingError(f"manual: body is {body!r}; it must be a function of blocks")
    given, wanted = _listed("in_shardings", in_shardings), _listed("out_shardings", out_shardings)
    if not given and not wanted:
        raise ShardingError("manual: there are neither in_shardings nor out_shardings; the grid is found by them")
    first = (given + wanted)[0]
    grid = first[1].grid
    for name, sharding, _ in (*given, *wanted):
        if sharding.grid != grid:
            one, other = told_apart(sharding.grid, grid)
            raise GridError(f"manual: {name} is on {one}, and {first[0]} on {other}; all must be on the same grid")
    axes = grid.axes(manual_axes, "manual: manual_axes")
    if list(axes) != sorted(axes):
        in_order = [_axis_name(grid, axis) for axis in sorted(axes)]
        raise AxisError(
            f"manual: manual_axes is {list(manual_axes)}; it must be in the order of the grid {grid}: {in_order}"
        )
    ins, outs = (tuple([_side(*each, axes) for each in sides]) for sides in (given, wanted))
    return Terms(body, grid, ins, outs, axes, not isinstance(out_shardings, list | tuple))


def _axis_name(grid: Grid, axis: int) -> int | str:
    return grid.axis_names[axis] if grid.axis_names else axis


def _listed(name: str, shardings: Any) -> list[tuple[str, Sharding, Iterable[int | str]]]:
    """Names, shardings, and axes that are explicitly replicated; a sharding may come in a pair with these."""
    found = []
    for number, each in enumerate(shardings if isinstance(shardings, list | tuple) else [shardings]):
        barred: Iterable[int | str] = ()
        if isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], Sharding):
            each, barred = each
        if not isinstance(each, Sharding):
            raise ShardingError(
                f"manual: {name}[{number}] is {each!r}; it must be a Sharding, or a pair of one and the grid axes along"
                " which it is explicitly replicated"
            )
        found.append((f"{name}[{number}]", each, barred))
    return found


def _side(name: str, sharding: Sharding, barred: Iterable[int | str], manual: tuple[int, ...]) -> Side:
    replicated = sharding.grid.axes(tuple(barred), f"manual: replicated axes of {name}")
    used = {axis for cut in sharding.split_axes for axis in cut} | set(sharding.partial_axes)
    twice = used & set(replicated)
    if twice:
        raise AxisError(f"manual: {name} is {sharding}, and uses axes {sorted(twice)} that are explicitly replicated")
    if sharding.open_dims:
        undecided = [axis for axis in manual if axis not in used and axis not in replicated]
        if undecided:
            raise ShardingError(
                f"manual: {name} is {sharding}, whose dimensions {list(sharding.open_dims)} are open, and does not use"
                f" manual axes {undecided}; each must cut a dimension, or be explicitly replicated: close the"
                f" dimensions, or give ({name.split('[')[0][:-1]}, {undecided})"
            )
    for d, cut in enumerate(sharding.split_axes):
        free = [axis for axis in cut if axis not in manual]
        if free and any(axis in manual for axis in cut[cut.index(free[0]) :]):
            raise ShardingError(
                f"manual: dimension {d} of {name} is cut by {list(cut)}, where free axis {free[0]} comes before a"
                f" manual axis of {list(manual)}; free axes must be minor to manual ones"
            )
        if sharding.offsets_of(d) is not None and any(axis in manual for axis in cut):
            raise ShardingError(
                f"manual: {name} is {sharding}, with sharded_dims_offsets; blocks along manual axes are even, and need"
                " none"
            )
    if sharding.halo_sizes and name.startswith("out"):
        raise ShardingError(f"manual: {name} is {sharding}; blocks that a body returns have no halos")
    return Side(name, sharding, _along(sharding, manual), replicated)


def _along(sharding: Sharding, manual: Sequence[int]) -> Sharding:
    """The part of a sharding that cuts by manual axes."""
    cuts = [tuple([axis for axis in cut if axis in manual]) for cut in sharding.split_axes]
    halos = [sharding.halo_of(d) for d, cut in enumerate(cuts) if cut]
    return Sharding(
        sharding.grid,
        cuts,
        halo_sizes=halos if any(map(any, halos)) else None,
        partial_axes=[axis for axis in sharding.partial_axes if axis in manual],
        partial_kind=sharding.partial_kind,
    )
