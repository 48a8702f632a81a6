"""map_overlap: a stencil computed while the halos that it needs are on their way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from spmd_grid.errors import GridError, OutputError, ShapeError, ShardingError, SpmdError
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.halo.exchange import HaloExchange, plan_of
from spmd_grid.halo.geometry.boundary import BoundaryLike, PeriodicLike
from spmd_grid.halo.overlap_boxes import Radius, Region, overlap_boxes, tiles
from spmd_grid.halo.plan.field_checks import LaidOut
from spmd_grid.halo.plan.halo_plan import HaloPlan
from spmd_grid.halo.plan.specification import HaloSpecification, agree, group_axes, plan_text
from spmd_grid.halo.plan.watched import make_plan
from spmd_grid.ops.calls.arguments import check_output, hashable
from spmd_grid.ops.outcome import agree_outcome, note_failure
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["map_overlap"]

# Bytes that a tile reads and writes: a compiled stencil takes one or two tenths of a millisecond for them, and messages
# advance only between tiles.
_TILE_BYTES = 1 << 20

# For each set of axes that split, a grid keeps this many plans.
_MOST_PLANS = 16


class GridArray(LaidOut, Protocol):
    """An array that also knows its grid, as `ShardedArray` does."""

    @property
    def grid(self) -> ProcessGrid: ...

    @property
    def dtype(self) -> np.dtype: ...


def map_overlap(
    kernel: Callable[..., None],
    u: GridArray | Sequence[GridArray],
    radius: Radius,
    *args: Any,
    out: GridArray | None = None,
    halo: HaloExchange | None = None,
    region: Region = None,
    periodic: PeriodicLike = False,
    boundary: BoundaryLike = "leave",
    corners: bool = True,
) -> Any:
    """Refreshes the halos of ``u`` and computes ``out`` from it, the interior while the bytes move; returns ``out``.

    Collective over the axes that split.  ``u``: a `ShardedArray`, or a tuple of them that have one layout.  ``kernel``,
    compiled by numba or not, is called as ``kernel(*locals, out_local, starts, stops, *args)`` and sets
    ``out_local[starts[0]:stops[0], ...]``, reading no farther than ``radius`` beyond; ``starts`` and ``stops`` are
    tuples of local indices, and the boxes of all calls are disjoint.  ``radius``: one whole number or one per tensor
    dimension, each for both sides or a (low, high) pair.  ``region``: the slices of the global array to compute, such
    as ``numpy.s_[1:-1, 1:-1]``; by default everything, but for cells closer than the radius to the end of a dimension
    that is not sharded.  The other cells of ``out`` stay as they are.

    ``out``: a `ShardedArray` of the layout of ``u``; by default a new one of zeros, of the dtype of the first array.
    ``halo``: the plan to use.  Without one, processes compare their arguments at every call, plans are made for
    ``periodic``, ``boundary`` and ``corners`` (see `HaloExchange`) where needed, and the grid keeps the last 16.

    The interior is computed in tiles that read and write about 1 MiB each, and bytes move on between them.  Within a
    node, where the cores that compute also copy the halos, there is little to hide.  Should ``kernel`` raise, its error
    appears when this process has finished its part of the exchange.  Without ``halo``, all processes raise it; with it,
    processes that have had none go on, and their next operation raises `MismatchError` on all.

    Raises `ShapeError`, `DTypeError`, `OutputError` where an array is invalid, the same on this process and on all
    that wait for it, whose ``out`` may have been written; `ShapeError` for a radius beyond the halo; `RequestError`.

    >>> import numpy as np, spmd_grid as sg
    >>> def smooth(u, out, starts, stops):
    ...     for i in range(starts[0], stops[0]):
    ...         out[i] = (u[i - 1] + u[i + 1]) / 2
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     s = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
    ...     u = sg.from_function(lambda i: i**2.0, (8,), s, grid)
    ...     return sg.map_overlap(smooth, u, 1, region=np.s_[1:-1]).to_global().tolist()
    >>> sg.run_spmd(body, ranks=3)[0]
    [0.0, 2.0, 5.0, 10.0, 17.0, 26.0, 37.0, 0.0]
    """
    fields = tuple(u) if isinstance(u, list | tuple) else (u,)
    if not callable(kernel):
        raise ShapeError(f"map_overlap: kernel is {kernel!r}; it must be a function")
    grid: Any = (
        plan_of(halo).grid if isinstance(halo, HaloExchange) else getattr(next(iter(fields), None), "grid", None)
    )
    if not isinstance(grid, ProcessGrid):
        _plan_of(fields, halo, periodic, boundary, corners)  # raises the error
    options = out, halo, region, periodic, boundary, corners
    try:
        return grid.process.gate.run("map_overlap", _map_overlap, kernel, fields, radius, args, *options)
    except Exception as error:
        note_failure(grid, "map_overlap", error)
        raise


def _map_overlap(
    kernel: Callable[..., None],
    fields: tuple[GridArray, ...],
    radius: Radius,
    args: tuple[Any, ...],
    out: GridArray | None,
    halo: HaloExchange | None,
    region: Region,
    periodic: PeriodicLike,
    boundary: BoundaryLike,
    corners: bool,
) -> GridArray:
    plan = _plan_of(fields, halo, periodic, boundary, corners)
    arguments = plan, kernel, fields, radius, args, out, region
    if halo is not None:
        return _computed(*arguments)
    # Without a plan of the program's, processes have met at the beginning, and do so at the end.
    grid = fields[0].grid
    agree = partial(agree_outcome, grid, "map_overlap", axes=group_axes(grid, plan.layout.sharding))
    try:
        result = _computed(*arguments)
    except Exception as error:
        if plan.gate.is_spared(error) or (isinstance(error, SpmdError) and not error.cuts_off):
            agree(error)
        raise
    agree(None)
    return result


def _computed(
    plan: HaloPlan,
    kernel: Callable[..., None],
    fields: tuple[GridArray, ...],
    radius: Radius,
    args: tuple[Any, ...],
    out: GridArray | None,
    region: Region,
) -> GridArray:
    layout = plan.layout
    plan.check_idle("map_overlap")
    cell_bytes = sum([dtype.itemsize for dtype in (*plan.dtypes, plan.dtypes[0])])
    interior, rest = _course_of(layout, plan.channels.coords, radius, region, _TILE_BYTES // max(cell_bytes, 1))
    try:
        _check_fields(fields)
        if out is None:
            first = fields[0]
            kind: Any = type(first)
            out = kind(first.grid.allocate(first.local.shape, first.dtype, True), first.layout, first.grid)
        else:
            _check_out(out, layout, fields)
    except (SpmdError, MemoryError) as error:
        raise plan.refuse("map_overlap", error, plan.channel) from None

    arrays = [field.local for field in (*fields, out)]
    call_user = plan.gate.call_user
    plan.start(fields)
    try:
        for number, (starts, stops) in enumerate(interior):
            if number:
                plan.poke()
            call_user(kernel, *arrays, starts, stops, *args)
    except BaseException as error:
        if plan.gate.is_spared(error):
            plan.wait()  # neighbours need this process's part, and the plan its end
        raise
    plan.end_update()
    for starts, stops in rest:
        call_user(kernel, *arrays, starts, stops, *args)
    out.mark_dirty()
    return out


def _plan_of(
    fields: tuple[GridArray, ...],
    halo: HaloExchange | None,
    periodic: PeriodicLike,
    boundary: BoundaryLike,
    corners: bool,
) -> HaloPlan:
    """The plan to use: that of ``halo``, or the grid's own for these arguments.  Collective without ``halo``."""
    options = hashable(periodic), hashable(boundary), corners
    if halo is not None:
        if not isinstance(halo, HaloExchange):
            raise GridError(f"map_overlap: halo is {halo!r}; it must be a HaloExchange")
        if options != (False, "leave", True):
            raise ShardingError("map_overlap: periodic, boundary and corners are those of the plan that halo is")
        return plan_of(halo)
    _check_fields(fields)
    grid, layout, dtypes = fields[0].grid, fields[0].layout, [field.dtype for field in fields]
    grid.check_use("map_overlap")
    asked = HaloSpecification(layout.sharding, layout.global_shape, dtypes, periodic, corners, len(fields), boundary)
    kept: _Plans | None = grid.plans
    if kept is None:
        # Plans keep their grid alive: an equal grid of their own, so that the caller's is not kept.
        kept = _Plans(grid.like(grid.grid, "map_overlap"), {})
        grid.plans = kept
    # By axes: processes that share a plan use all plans of its axes in the same order, and drop them together.
    axes = group_axes(grid, layout.sharding)
    plans = kept.by_axes.setdefault(axes, {})
    # At every call: a process with other arrays would make a plan while its neighbours use theirs.
    pattern, found, path = agree(grid, axes, asked)
    functions = [rule for rule in chain(*pattern.boundary) if callable(rule)]
    key = (plan_text(pattern, found, path), *map(id, functions))  # which the plan keeps alive
    plan = plans.pop(key, None)
    if plan is None:
        plan = make_plan(kept.owner, group_axes(kept.owner, layout.sharding), asked)
        if len(plans) >= _MOST_PLANS:
            del plans[next(iter(plans))]
    plans[key] = plan  # as the one used last
    return plan


def _check_fields(fields: tuple[GridArray, ...]) -> None:
    """Refuses fields that are no `ShardedArray`; the plan checks the rest.  Local."""
    for i, field in enumerate(fields):
        if not isinstance(getattr(field, "layout", None), Layout):
            what = "u" if len(fields) == 1 else f"array {i} of u"
            raise OutputError(f"{what} is {type(field).__name__}; it must be a ShardedArray")
    if not fields:
        raise ShapeError("u is an empty tuple; it must be a ShardedArray or a tuple of them")


def _check_out(out: GridArray, layout: Layout, fields: tuple[GridArray, ...]) -> None:
    """Refuses an ``out`` that cannot take the result.  Local."""
    found = getattr(out, "layout", None)
    if not isinstance(found, Layout):
        raise OutputError(f"out is {type(out).__name__}; it must be a ShardedArray")
    if found != layout:
        raise ShapeError(f"out has layout {found}; it must be that of u, {layout}")
    for field in fields:
        check_output("map_overlap", out.local, field.local)


class _Course(NamedTuple):
    """(starts, stops) of the tiles of the interior, and of the boundary's boxes."""

    interior: list[tuple[Shape, Shape]]
    boundary: list[tuple[Shape, Shape]]


def _course_of(layout: Layout, coords: MultiIndex, radius: Radius, region: Region, tile_cells: int) -> _Course:
    """The boxes to compute, kept from the last call where possible.  Local."""
    try:
        row = (region,) if isinstance(region, slice) else region
        ends = None if row is None else tuple([(each.start, each.stop, each.step) for each in row])
        return _kept_course(layout, coords, hashable(radius), ends, tile_cells)
    except (TypeError, AttributeError):  # not hashable, and perhaps invalid
        return _course(layout, coords, radius, region, tile_cells)


@lru_cache(maxsize=256, typed=True)
def _kept_course(layout: Layout, coords: MultiIndex, radius: Radius, ends: tuple | None, tile_cells: int) -> _Course:
    return _course(layout, coords, radius, None if ends is None else [slice(*each) for each in ends], tile_cells)


def _course(layout: Layout, coords: MultiIndex, radius: Radius, region: Region, tile_cells: int) -> _Course:
    try:
        interior, boundary = overlap_boxes(layout, coords, radius, region)
    except SpmdError as error:
        raise type(error)(f"map_overlap: {error}") from None
    cut = tiles(interior, tile_cells)
    return _Course([(box.starts, box.stops) for box in cut], [(box.starts, box.stops) for box in boundary])


class _Plans(NamedTuple):
    """The plans that a grid keeps, by the axes that they are collective over."""

    owner: ProcessGrid
    by_axes: dict[tuple[int, ...], dict]
