"""One function on sharded arrays: operands are resharded, blocks computed, partial results combined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.compute.splits import (
    Splits,
    block_starts,
    choose_splits,
    is_sharded,
    plain_sharding,
    reference_of,
)
from spmd_grid.errors import ImplicitGatherError, OutputError
from spmd_grid.functions.interface import WHOLE, Application, IndexingMap
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.reshard.execute import reshard_local

__all__ = ["apply", "brought", "sharded_like"]


def apply(application: Application, out: Sequence[Any] | None = None, reference: Any = None) -> Any:
    """The results of a function, as sharded arrays; a number where a result has no dimensions.

    Collective over the grid.  ``reference``: the operand whose layout decides, by default that with the most bytes.
    ``out``: arrays of the result's layout.  Raises `GridError`, `OutputError` and `ImplicitGatherError`, alike on every
    process and before anything moves.
    """
    operands, interface = application.operands, application.interface
    reference = reference_of(operands) if reference is None else reference
    grid = reference.grid
    for operand in operands:
        if is_sharded(operand):
            grid.check_same_program(operand.grid, application.name)
    splits = choose_splits(interface, operands, reference)
    _refuse_whole_arrays(application, splits, reference)
    shardings = [splits.sharding(each) for each in interface.results]
    shapes = [interface.result_shape(number) for number in range(len(shardings))]
    if out is not None:
        _check_out(application.name, out, shardings, shapes, grid)
    return grid.process.gate.run(application.name, _run, application, splits, shardings, shapes, grid, reference, out)


def _run(
    application: Application,
    splits: Splits,
    shardings: list[Sharding],
    shapes: list[tuple[int, ...]],
    grid: ProcessGrid,
    reference: Any,
    out: Sequence[Any] | None,
) -> Any:
    interface = application.interface
    blocks = [
        brought(operand, splits.sharding(each), each, splits, interface, grid)
        for operand, each in zip(application.operands, interface.operands)
    ]
    found = application.local(*blocks)
    results = list(found) if isinstance(found, tuple) else [found]
    axes = splits.axes_of_reductions(interface)
    if axes:
        results = [all_reduce.run_in_gate(np.asarray(each), grid, axes, (application.kind, None)) for each in results]
    if application.finish is not None:
        results = [application.finish(each) for each in results]
    if out is not None:
        for array, target in zip(results, out):
            target.core[...] = array
            target.mark_dirty()
        return out[0] if len(out) == 1 else tuple(out)
    made = [
        sharded_like(reference, array, Layout(sharding, shape), blocks)
        for array, sharding, shape in zip(results, shardings, shapes)
    ]
    return made[0] if len(made) == 1 else tuple(made)


def brought(
    operand: Any, sharding: Sharding, indexing_map: IndexingMap, splits: Splits, interface: Any, grid: ProcessGrid
) -> Any:
    """This process's block of an operand, in the sharding that the function needs.  Collective.

    A plain array is equal on all processes: each takes its block.  A number stays what it is.
    """
    if not is_sharded(operand):
        if not isinstance(operand, np.ndarray) or not operand.ndim:
            return operand
        return operand[sharding.shard_slices(operand.shape, grid.coords)]
    held = operand.sharding
    if held.grid == sharding.grid and plain_sharding(held) == sharding and not held.partial_axes:
        return operand.core
    return reshard_local(operand.local, held, sharding, operand.grid, operand.shape)


def sharded_like(reference: Any, array: Any, layout: Layout, blocks: Sequence[Any] = ()) -> Any:
    """A sharded array of ``layout`` with the local ``array``; a number where it has no dimensions.  Local."""
    array = np.asarray(array)
    if not layout.ndim:
        return array[()]
    shape = layout.local_shape(reference.grid.coords)
    if array.shape != shape:
        array = np.broadcast_to(array, shape)
    if array.base is not None or not array.flags.writeable or any(array is block for block in blocks):
        copy = reference.grid.allocate(shape, array.dtype)
        copy[...] = array
        array = copy
    return type(reference)(array, layout, reference.grid)


def _refuse_whole_arrays(application: Application, splits: Splits, reference: Any) -> None:
    """Refuses what would make every process hold all of an array that is spread."""
    interface = application.interface
    whole = [i for i, iterator in enumerate(interface.iterators) if iterator.kind == WHOLE]
    if not whole or any(splits.axes):
        return
    if any(is_sharded(x) and any(x.sharding.split_axes) for x in application.operands):
        raise ImplicitGatherError(
            f"{application.name}: the dimension along which it works must be whole on a process, and the array has no"
            " other to be cut along: to_global() gathers all of it (collective)"
        )


def _check_out(name: str, out: Sequence[Any], shardings: list[Sharding], shapes: list, grid: ProcessGrid) -> None:
    for target, sharding, shape in zip(out, shardings, shapes, strict=True):
        if not is_sharded(target):
            raise OutputError(f"{name}: out is {type(target).__name__}; it must be a ShardedArray, as the result is")
        grid.check_same_program(target.grid, name)
        if target.shape != shape:
            raise OutputError(f"{name}: out has shape {target.shape}; the result has shape {shape}")
        if target.grid.grid != grid.grid or not _same_cuts(target.sharding, sharding, shape):
            raise OutputError(f"{name}: out has sharding {target.sharding}; the result has {sharding}")
        if not target.local.flags.writeable:
            raise OutputError(f"{name}: out is read-only")


def _same_cuts(a: Sharding, b: Sharding, shape: tuple[int, ...]) -> bool:
    """Whether two shardings of one grid give every device the same core of an array of ``shape``."""
    a, b = plain_sharding(a) if not a.partial_axes else a, plain_sharding(b)
    if a == b:
        return True
    return (
        not a.partial_axes
        and a.split_axes == b.split_axes
        and all(block_starts(a, dim, n) == block_starts(b, dim, n) for dim, n in enumerate(shape))
    )
