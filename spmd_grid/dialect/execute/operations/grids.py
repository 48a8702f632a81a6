"""shard: grids, indices of processes, shardings, sizes of shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Operation

from spmd_grid.dialect.execute.reading import (
    attribute,
    has,
    integer,
    integers,
    mixed,
    name_of,
    symbol,
    text_of,
)
from spmd_grid.dialect.execute.table import Runner, handles, needs_devices
from spmd_grid.errors import ShapeError, ShardingError
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.trace.public import sharding_group

__all__ = ["axis_lists"]


def axis_lists(op: Operation, name: str = "split_axes") -> list[tuple[int, ...]]:
    """Lists of grid axes, per tensor dimension."""
    found: Any = attribute(op, name)
    lists: Any = found if isinstance(found, ArrayAttr) else getattr(found, "axes", ())
    return [_axes(each) for each in lists]


def _axes(found: Any) -> tuple[int, ...]:
    if hasattr(found, "get_values"):
        return tuple([int(n) for n in found.get_values()])
    return tuple([int(each.value.data) for each in found])


def _sharding_grid(runner: Runner, op: Operation) -> Any:
    return needs_devices(runner, name_of(op)).grid(symbol(op, "grid"))


@handles("shard.sharding")
def _sharding(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    if runner.devices is None:
        return None if not op.results else [NO_SHARDING]
    grid = _sharding_grid(runner, op)
    dynamic: Iterator[Any] = iter(operands)
    offsets = mixed(integers(op, "static_sharded_dims_offsets") or integers(op, "block_starts"), dynamic)
    halos = mixed(integers(op, "static_halo_sizes"), dynamic)
    options: dict[str, Any] = {}
    if attribute(op, "blocks") is not None:
        options["blocks"] = text_of(attribute(op, "blocks"))
    if integers(op, "open_dims"):
        options["open_dims"] = integers(op, "open_dims")
    partial, kind = integers(op, "partial_axes"), attribute(op, "partial_type")
    if partial:
        options |= {"partial_axes": partial, "partial_kind": "sum" if kind is None else text_of(kind)}
    return [Sharding(grid, axis_lists(op), halo_sizes=halos or None, sharded_dims_offsets=offsets or None, **options)]


NO_SHARDING = object()  # where whole arrays are computed


@handles("shard.shard")
def _shard(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, sharding = operands
    if runner.devices is None:
        return x
    options: dict[str, Any] = {"for_users": has(op, "annotate_for_users")}
    if attribute(op, "required") is not None:
        options["required"] = has(op, "required")
    if attribute(op, "priority") is not None:
        options["priority"] = integer(op, "priority")
    if integers(op, "replicated_axes"):
        options["replicated_axes"] = integers(op, "replicated_axes")
    return runner.devices.annotate(x, sharding, options)


@handles("spmd_grid.sharding_group")
def _sharding_group(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    found = attribute(op, "id")
    if runner.is_tracing:
        sharding_group(operands[0], integer(op, "id") if isinstance(found, IntegerAttr) else text_of(found))
    return []


@handles("shard.get_sharding")
def _get_sharding(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    owner = op.operands[0].owner
    if not isinstance(owner, Operation) or name_of(owner) != "shard.shard":
        raise ShardingError("the operand of shard.get_sharding is not the result of a shard.shard")
    return [runner.value(owner.operands[1])]


@handles("shard.grid_shape")
def _grid_shape(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    shape = _sharding_grid(runner, op).shape
    return [np.int64(shape[axis]) for axis in integers(op, "axes") or range(len(shape))]


@handles("shard.process_multi_index")
def _multi_index(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    coords = needs_devices(runner, name_of(op)).coords(symbol(op, "grid"))
    return [np.int64(coords[axis]) for axis in integers(op, "axes") or range(len(coords))]


@handles("shard.process_linear_index")
def _linear_index(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    devices, grid = needs_devices(runner, name_of(op)), symbol(op, "grid")
    return np.int64(np.ravel_multi_index(devices.coords(grid), devices.grid(grid).shape))


@handles("shard.neighbors_linear_indices")
def _neighbors(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    grid = _sharding_grid(runner, op)
    coords = tuple([int(n) for n in operands])
    found = grid.neighbors_linear_indices(coords, integers(op, "split_axes"))
    return [np.int64(n) for n in found]


@handles("shard.shard_shape")
def _shard_shape(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    needs_devices(runner, name_of(op))
    at = next(i for i, x in enumerate(operands) if isinstance(x, Sharding))
    dims = mixed(integers(op, "dims"), iter(operands[:at]))
    device = mixed(integers(op, "device"), iter(operands[at + 1 :]))
    sharding: Sharding = operands[at]
    if len(device) == 1 and sharding.grid.ndim > 1:
        device = [int(n) for n in np.unravel_index(device[0], sharding.grid.shape)]
    if len(dims) != len(op.results):
        raise ShapeError(f"there are {len(dims)} extents and {len(op.results)} results; it must be one per extent")
    return [np.int64(n) for n in sharding.shard_shape(tuple(dims), tuple(device))]


@handles("shard.grid")
def _grid(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    integer(op, "rank", default=0)
    raise ShapeError(f"{name_of(op)} stands inside a function; it must stand in the module")
