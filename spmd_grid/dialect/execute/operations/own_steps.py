"""Steps of the engine's own plans: slices of blocks, scans, reshapes, and moves from layout to layout.

Their types, or the attributes ``sources`` and ``targets``, say of which arrays operands and results are blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from spmd_grid.compute.splits import block_starts
from spmd_grid.dialect.execute.layouts import Layouts, has_layouts, layouts_of
from spmd_grid.dialect.execute.operations.arguments import named_function, selection_of
from spmd_grid.dialect.execute.operations.tensors import extents
from spmd_grid.dialect.execute.reading import attribute, dtype_of, integer, integers, name_of, text_of
from spmd_grid.dialect.execute.table import Runner, handles, needs_devices
from spmd_grid.errors import ShapeError
from spmd_grid.functions.axes import cut
from spmd_grid.grid.blocks import block_interval
from spmd_grid.grid.layout import Layout
from spmd_grid.program.trace.tracer import current_tracer
from spmd_grid.reshard.planner.steps import STEP_KINDS

__all__ = ["own_concatenate", "own_layouts", "own_reshape"]

Coords = tuple[int, ...]


def own_layouts(runner: Runner, op: Operation) -> tuple[Layouts, Coords]:
    """The layouts of a step, and the coordinates of this device.  Raises ShapeError."""
    devices = needs_devices(runner, name_of(op))
    found: Layouts = runner.kept((op, "layouts"), lambda: layouts_of(op, devices))
    return found, devices.coords(found.grid)


# -- slices --------------------------------------------------------------------------------------------------------


@handles("spmd_grid.select")
def _select(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    layouts, coords = own_layouts(runner, op)
    (source,), (target,), cells = layouts.sources, layouts.targets, selection_of(op)
    box, key = target.core_box(coords), []
    for at, first, stop, begin, step in zip(
        source.local_box(coords).starts, box.starts, box.stops, cells.starts, cells.steps
    ):
        low = begin + first * step - at
        key.append(slice(low, low + (stop - first - 1) * step + 1, step) if first < stop else slice(0, 0))
    return operands[0][tuple(key)]


@handles("spmd_grid.view")
def _view(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    key = selection_of(op).view_key()
    return operands[0] if key is None else operands[0][key]


@handles("spmd_grid.put")
def _put(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    layouts, coords = own_layouts(runner, op)
    (target,), cells, (block, piece) = layouts.targets, selection_of(op), operands
    box, key, own = target.core_box(coords), [], []
    starts = target.core_in_local(coords).starts
    for dim, (start, stop, at) in enumerate(zip(box.starts, box.stops, starts)):
        first, end = cells.held(dim, start, stop)
        low, step = cells.starts[dim] + first * cells.steps[dim] - start + at, cells.steps[dim]
        key.append(slice(low, low + (end - first - 1) * step + 1, step) if end > first else slice(0, 0))
        own.append(slice(first, end))
    copy = np.array(block, order="C")
    is_whole = np.ndim(piece) and not layouts.sources[1].sharding.sharded_dims
    copy[tuple(key)] = piece[tuple(own)] if is_whole else piece
    return copy


# -- shapes --------------------------------------------------------------------------------------------------------


@handles("spmd_grid.new")
def _new(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    is_block = has_layouts(op) and runner.devices is not None
    shape = _own_shape(runner, op) if is_block else extents(op, ())
    zeros = np.zeros(shape, dtype_of(op.results[0].type))
    return current_tracer("spmd_grid.new").constant(zeros) if runner.is_tracing else zeros


@handles("spmd_grid.reshape")
def own_reshape(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    """The cells of the own block in their new shape."""
    return np.ascontiguousarray(operands[0]).reshape(_own_shape(runner, op))


def _own_shape(runner: Runner, op: Operation) -> tuple[int, ...]:
    layouts, coords = own_layouts(runner, op)
    return layouts.targets[0].local_shape(coords)


def own_concatenate(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    """Blocks are joined; of plain arrays, which are whole, the cells that belong to the block of the result."""
    layouts, coords = own_layouts(runner, op)
    (target,), axis, start, parts = layouts.targets, integer(op, "axis"), 0, []
    box = target.core_box(coords)
    for source, x in zip(layouts.sources, operands):
        n = source.global_shape[axis]
        is_whole = np.shape(x) == source.global_shape and not source.sharding.sharded_dims
        if is_whole:
            held = [slice(a, b) for a, b in zip(box.starts, box.stops)]
            low, high = (min(max(at - start, 0), n) for at in (box.starts[axis], box.stops[axis]))
            held[axis] = slice(low, high)
            x = x[tuple(held)]
        parts.append(x)
        start += n
    return np.concatenate(parts, axis, dtype=dtype_of(op.results[0].type))


# -- scans ---------------------------------------------------------------------------------------------------------


@handles("spmd_grid.scan")
def _scan(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    function = named_function(text_of(attribute(op, "of")))
    return function(operands[0], axis=integer(op, "axis"), dtype=dtype_of(op.results[0].type))


@handles("spmd_grid.ends_of_blocks")
def _ends(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return np.ascontiguousarray(operands[0][cut(integer(op, "axis"), -1, None)])


_COMBINES = {"numpy.cumsum": np.add, "numpy.cumprod": np.multiply}


@handles("spmd_grid.carry")
def _carry(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    layouts, coords = own_layouts(runner, op)
    (block, ends), axis, name = operands, integer(op, "axis"), text_of(attribute(op, "of"))
    combine = _COMBINES.get(name) or named_function(name.removesuffix(".accumulate"))
    if not isinstance(combine, np.ufunc):
        raise ShapeError(f"{name_of(op)}: of is {name!r}; it must be the accumulate of a ufunc, cumsum or cumprod")
    dtype = dtype_of(op.results[0].type)
    before = np.moveaxis(ends, axis, 0)[: _blocks_before(layouts.targets[0], axis, coords)]
    if not len(before):
        return block
    return combine(np.expand_dims(combine.reduce(before, axis=0, dtype=dtype), axis), block, dtype=dtype)


def _blocks_before(layout: Layout, axis: int, coords: Coords) -> int:
    """The number of blocks with cells before that of a device, along a dimension."""
    sharding = layout.sharding
    starts = block_starts(sharding, axis, layout.global_shape[axis])
    number = 0
    for grid_axis in sharding.axes_of(axis):
        number = number * sharding.grid.shape[grid_axis] + coords[grid_axis]
    return sum(starts[i + 1] > starts[i] for i in range(number))


# -- moves ---------------------------------------------------------------------------------------------------------


@handles(*[f"spmd_grid.{kind}" for kind in STEP_KINDS])
def _move(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    layouts, _ = own_layouts(runner, op)
    (source,), (target,) = layouts.sources, layouts.targets
    return needs_devices(runner, name_of(op)).reshard(layouts.grid, operands[0], source, target)


@handles("spmd_grid.make_room")
def _make_room(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    layouts, coords = own_layouts(runner, op)
    (target,) = layouts.targets
    room = np.zeros(target.local_shape(coords), operands[0].dtype)
    room[target.core_in_local(coords).slices()] = operands[0]
    return room


@handles("spmd_grid.wait")
def _wait(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return []


@handles("spmd_grid.block")
def _block(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    """The start and the size of the block of a dimension, by offsets or by a policy, at coordinates of the grid."""
    sizes, extent, number = integers(op, "sizes"), integer(op, "extent"), [int(n) for n in operands]
    offsets = integers(op, "offsets")
    if offsets:
        at = int(np.ravel_multi_index(tuple(number), sizes))
        start, stop = offsets[at], offsets[at + 1]
    else:
        start, stop = block_interval(extent, sizes, tuple(number), text_of(attribute(op, "blocks")))
    return [np.int64(start), np.int64(stop - start)]
