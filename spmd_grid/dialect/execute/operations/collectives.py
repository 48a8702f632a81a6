"""shard: the collectives, shift, send, recv and update_halo.

This module reads which devices take part, and what they pass.  The runner's devices communicate: the engine's, or
numpy's on all arrays at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation

from spmd_grid.dialect.execute.layouts import has_layouts
from spmd_grid.dialect.execute.operations.grids import axis_lists
from spmd_grid.dialect.execute.operations.own_steps import own_layouts
from spmd_grid.dialect.execute.reading import (
    attribute,
    dtype_of,
    has,
    integer,
    integers,
    mixed,
    name_of,
    symbol,
    text_of,
)
from spmd_grid.dialect.execute.table import Runner, handles, needs_devices
from spmd_grid.dialect.execute.values import Undefined

_AXES: dict[str, dict[str, tuple[str, ...]]] = {
    "all_gather": {"gather_axis": ("gather_axis",)},
    "all_slice": {"slice_axis": ("slice_axis",)},
    "all_to_all": {"split_axis": ("split_axis",), "concat_axis": ("concat_axis",)},
    "all_reduce": {},
    "broadcast": {},
    "gather": {"gather_axis": ("gather_axis",)},
    "reduce": {},
    "reduce_scatter": {"scatter_axis": ("scatter_dim", "scatter_axis")},
    "scatter": {"scatter_axis": ("scatter_dim", "scatter_axis")},
    "send": {},
    "recv": {},
    "shift": {"shift_axis": ("shift_axis",), "offset": ("offset",)},
}
_ROOTS = {"broadcast": "root", "gather": "root", "reduce": "root", "scatter": "root"}
_PEERS = {"send": "destination", "recv": "source"}
_REDUCING = "all_reduce", "reduce", "reduce_scatter"
_BY_LAYOUT = "all_gather", "all_reduce", "all_slice", "all_to_all", "reduce_scatter"


@handles(*[f"shard.{name}" for name in _AXES])
def _collective(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    name = name_of(op).partition(".")[2]
    devices = needs_devices(runner, name_of(op))
    x, *dynamic = operands
    if name in _BY_LAYOUT and has_layouts(op):  # blocks of several extents, or of texts of global types
        layouts, _ = own_layouts(runner, op)
        (source,), (target,) = layouts.sources, layouts.targets
        return devices.reshard(layouts.grid, x, source, target)
    options: dict[str, Any] = {given: integer(op, *names) for given, names in _AXES[name].items()}
    argument = _ROOTS.get(name) or _PEERS.get(name)
    if argument is not None and attribute(op, argument) is not None:
        options[argument] = tuple(mixed(integers(op, argument), iter(dynamic)))
    if name in _REDUCING:
        kind = attribute(op, "reduction")
        options |= {"reduction": "sum" if kind is None else text_of(kind), "dtype": dtype_of(op.results[0].type)}
    if name == "shift":
        options["rotate"] = has(op, "rotate")
    x = None if isinstance(x, Undefined) else x
    found = devices.run(name, symbol(op, "grid"), integers(op, "grid_axes"), x, options)
    if name == "send":
        return x
    return Undefined(_reason(name, options)) if found is None else found


def _reason(name: str, options: dict[str, Any]) -> str:
    if name == "shift":
        return "this device has no source in shard.shift; rotate gives it one"
    return f"shard.{name} gives its result to the root {list(options['root'])} only"


@handles("shard.update_halo")
def _update_halo(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    devices = needs_devices(runner, name_of(op))
    x, *dynamic = operands
    halos = mixed(integers(op, "static_halo_sizes", "halo_sizes"), iter(dynamic))
    options = {"split_axes": axis_lists(op), "halo_sizes": halos}
    is_buffer = isinstance(op.operands[0].type, MemRefType)
    target = x if is_buffer else np.array(x)
    return devices.run("update_halo", symbol(op, "grid"), (), target, options)
