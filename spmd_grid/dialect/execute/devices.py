"""The devices of a run: the grids of a module bound to processes, and the engine's collectives on them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from spmd_grid.dialect.execute.communication import Devices, Function
from spmd_grid.dialect.execute.faults import ExecutionError
from spmd_grid.dialect.execute.layouts import encoded_grids
from spmd_grid.dialect.execute.reading import DYNAMIC, integers, name_of, symbol
from spmd_grid.dialect.execute.runner import function_of
from spmd_grid.dialect.syntax.positions import known_position
from spmd_grid.errors import SpmdError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid, init_grid
from spmd_grid.halo.update_halo import update_halo
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.ops.all_slice import all_slice
from spmd_grid.ops.all_to_all import all_to_all
from spmd_grid.ops.broadcast import broadcast
from spmd_grid.ops.gather import gather
from spmd_grid.ops.reduce import reduce
from spmd_grid.ops.reduce_scatter import reduce_scatter
from spmd_grid.ops.scatter import scatter
from spmd_grid.ops.send_recv import recv, send
from spmd_grid.ops.shift import shift
from spmd_grid.program.lowerings.eager import as_local, as_sharded
from spmd_grid.reshard.execute import reshard
from spmd_grid.transport.launch import current_world

__all__ = ["EngineDevices", "grid_shapes", "pure_grids", "used_grids"]

_OPERATIONS: dict[str, Function] = {
    "all_gather": all_gather,
    "all_reduce": all_reduce,
    "all_slice": all_slice,
    "all_to_all": all_to_all,
    "broadcast": broadcast,
    "gather": gather,
    "reduce": reduce,
    "reduce_scatter": reduce_scatter,
    "scatter": scatter,
    "send": send,
    "shift": shift,
}


def grid_shapes(module: ModuleOp) -> dict[str, tuple[int, ...]]:
    """The shapes of the module's grids by symbol, -1 for sizes that are known at run time only."""
    found = {}
    for op in module.ops:
        if name_of(op) == "shard.grid":
            shape = integers(op, "shape")
            found[symbol(op, "sym_name")] = tuple([-1 if n in (-1, DYNAMIC) else n for n in shape])
    return found


def used_grids(module: ModuleOp, name: str | None) -> list[str]:
    """The names of the grids that a function and those that it calls mention; if none, the module's only grid."""
    found: dict[str, None] = {}
    waiting, seen = [name], set()
    while waiting:
        function = function_of(module, waiting.pop())
        if symbol(function, "sym_name") in seen:
            continue
        seen.add(symbol(function, "sym_name"))
        for op in function.walk():
            found |= dict.fromkeys([symbol(op, "grid"), *encoded_grids(op)])
            if name_of(op) == "func.call":
                waiting.append(symbol(op, "callee"))
    found.pop("", None)
    every = grid_shapes(module)
    return list(found) or (list(every) if len(every) == 1 else [])


def pure_grids(module: ModuleOp, name: str | None, size: int) -> dict[str, Grid]:
    """The grids that a function uses, as geometry for ``size`` processes.

    Raises ExecutionError if a grid does not fit the processes, or does not exist.
    """
    shapes = grid_shapes(module)
    found = {}
    for each in used_grids(module, name):
        if each not in shapes:
            raise ExecutionError(f"there is no grid @{each}", known_position(function_of(module, name)))
        shape = shapes[each]
        known = prod(n for n in shape if n != -1)
        unknown = shape.count(-1)
        if unknown > 1 or not known or (size % known if unknown else size != known):
            shown = "x".join("?" if n == -1 else str(n) for n in shape)
            needed = f"; --grid {each}=2x3 gives it a shape" if unknown > 1 else ""
            raise ExecutionError(
                f"grid @{each} is {shown}, and there are {size} processes{needed}",
                known_position(_grid_op(module, each)),
            )
        op = _grid_op(module, each)
        try:
            sizes = tuple([size // known if n == -1 else n for n in shape])
            found[each] = Grid(sizes, ranks=integers(op, "ranks") or None)
        except SpmdError as error:
            raise ExecutionError(f"grid @{each}: {error}", known_position(op)) from error
    return found


def _grid_op(module: ModuleOp, grid: str) -> Operation:
    return next(op for op in module.ops if name_of(op) == "shard.grid" and symbol(op, "sym_name") == grid)


class EngineDevices(Devices):
    """The devices of functions with local types, on the processes of the running program.  Collective when made."""

    def __init__(self, grids: dict[str, Grid]):
        super().__init__({name: init_grid(grid.shape, ranks=grid.ranks) for name, grid in grids.items()})
        self._all = next(iter(self._grids.values()), None) or init_grid((current_world().size,))
        self.size, self.rank = self._all.size, self._all.rank
        self._groups: dict[tuple[int, ...], ProcessGrid] = {}

    def coords(self, name: str) -> tuple[int, ...]:
        """The coordinates of this process."""
        coords: tuple[int, ...] = self.grid(name).own_coords
        return coords

    def run(self, name: str, grid: str, axes: tuple[int, ...], x: Any, options: dict[str, Any]) -> Any:
        """The result of a collective.  Collective over the devices of each group."""
        found = self.grid(grid)
        if name == "update_halo":
            return update_halo(x, found, **options)
        if name == "recv":
            return recv(found, axes, **options)
        return _OPERATIONS[name](x, found, axes, **options)

    def among(self, group: tuple[int, ...], name: str, x: Any, options: dict[str, Any]) -> Any:
        """The result of a collective of processes by number, on a grid of them alone.  Collective over the group."""
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = self._all.like(Grid((len(group),), ranks=group), name)
        return _permuted(x, found, **options) if name == "permute" else _OPERATIONS[name](x, found, (0,), **options)

    def reshard(self, grid: str, x: Any, source: Layout, target: Layout) -> Any:
        """The block of another layout of the same array.  Collective over the grid."""
        return reshard(x, source.sharding, target.sharding, self.grid(grid), source.global_shape)

    def collectively(self, grid: str, function: Function, blocks: Any, sources: Any, targets: Any) -> list[Any]:
        """The blocks of the results of a function, which is called with sharded arrays.  Collective over the grid."""
        found = function(*[as_sharded(x, layout, self.grid(grid)) for x, layout in zip(blocks, sources)])
        results = found if isinstance(found, tuple) else (found,)
        return [as_local(x, layout, self.grid(grid)) for x, layout in zip(results, targets, strict=True)]


def _permuted(x: Any, grid: ProcessGrid, pairs: Sequence[tuple[int, int]]) -> Any:
    """The array of the device whose pair ends at this one; None where there is no such pair."""
    own = grid.own_coords[0]
    targets, sources = dict(pairs), {target: source for source, target in pairs}
    sent = send.start(x, grid, [0], [targets[own]]) if own in targets else None
    found = recv(grid, [0], [sources[own]]) if own in sources else None
    if sent is not None:
        sent.wait()
    return found
