"""Contractions as they run on one process: blocks brought, multiplied, partial sums combined."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from spmd_grid.compute.blas_threads import keep_to_own_cores
from spmd_grid.compute.contractions.choose import choose_scheme
from spmd_grid.compute.contractions.panels import run_panels
from spmd_grid.compute.contractions.scheme import Held, Scheme, is_in_place, is_result
from spmd_grid.compute.course.apply import check_operands, owned
from spmd_grid.compute.course.output import check_out_dtype, check_sharded_out, write_out
from spmd_grid.compute.splits import ArrayOnGrid, is_sharded, plain_sharding, reference_of
from spmd_grid.errors import GridError, OutputError, ReductionError, ShardingError
from spmd_grid.exchange.paths import DIRECT, chosen_path, path_for
from spmd_grid.functions.interface import Application
from spmd_grid.functions.trials import trial_dtypes
from spmd_grid.grid.box import as_ints
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.links.model import LinkModel
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.reshard.execute import reshard_local

__all__ = ["ContractionCourse", "links_of", "plan_contraction"]

# Up to this many bytes beside the shards, processes do not ask one another how much memory is free.
_SMALL = 1 << 26


class ContractionCourse:
    """The way one contraction runs on operands of certain layouts and dtypes, on one process."""

    __slots__ = (
        "_application", "_block_shape", "_communicates", "_dtype", "_layout", "_make", "_reduced", "_reshards",
        "_scheme", "_shape", "_takes_out", "_ways", "grid",
    )  # fmt: skip

    def __init__(
        self, application: Application, scheme: Scheme, held: tuple[Held, ...], dtype: np.dtype, reference: ArrayOnGrid
    ):
        grid, interface = reference.grid, application.interface
        self.grid = grid
        # Without its operands: a course is kept, and would keep them from being freed.
        self._application = Application(application.name, (), interface, application.local)
        self._scheme = scheme
        self._dtype = dtype
        self._make = type(reference)
        self._layout = Layout(scheme.result, interface.result_shape())
        self._shape = self._layout.local_shape(grid.own_coords)
        self._block_shape = Layout(scheme.partial, interface.result_shape()).local_shape(grid.own_coords)
        self._takes_out = isinstance(application.local, partial) and isinstance(application.local.func, np.ufunc)
        stops = (
            scheme.operands
            if scheme.panels is None
            else [source or target for source, target in zip(scheme.panels.held, scheme.operands)]
        )
        self._ways = [_way(operand, each, stop, grid) for operand, each, stop in zip(application.operands, held, stops)]
        self._reduced: tuple[int, ...] = ()
        self._reshards = not is_result(scheme, self._layout.global_shape)
        if self._reshards and plain_sharding(scheme.partial) == scheme.result:
            self._reduced = tuple([axis for axis in scheme.partial.partial_axes if grid.shape[axis] > 1])
        keep_to_own_cores(grid, [interface])
        self._communicates = (
            self._reshards or scheme.panels is not None or any(isinstance(way, Sharding) for way in self._ways)
        )

    def run(self, operands: Sequence[Any], out: Sequence[Any] | None = None) -> Any:
        """The result for ``operands``.  Collective over the grid, if anything moves or is combined."""
        if self._communicates:
            return self.grid.process.gate.run(self._application.name, self._run, operands, out)
        return self._run(operands, out)

    def _run(self, operands: Sequence[Any], out: Sequence[Any] | None) -> Any:
        grid, scheme, blocks = self.grid, self._scheme, []
        for operand, way in zip(operands, self._ways):
            if way is None:
                blocks.append(operand)
            elif isinstance(way, Sharding):
                blocks.append(reshard_local(operand.stored, operand.sharding, way, operand.grid, operand.shape))
            else:
                blocks.append((operand if isinstance(operand, np.ndarray) else operand.stored)[way])
        if scheme.panels is not None:
            found = grid.allocate(self._shape, self._dtype)
            run_panels(self._application.interface, scheme.panels, blocks, self._application.local, found, grid)
        elif self._takes_out:
            found = grid.allocate(self._block_shape, self._dtype)
            self._application.local(*blocks, out=found)
            if not self._reshards and out is None and self._shape:
                return self._make(found, self._layout, grid)
        else:
            found = np.asarray(self._application.local(*blocks))
        if self._reduced:
            found = all_reduce.run_in_gate(found, grid, self._reduced, ("sum", None))
        elif self._reshards:
            moved = np.ascontiguousarray(found).reshape(found.shape)
            found = reshard_local(moved, scheme.partial, scheme.result, grid, self._layout.global_shape)
        if out is not None:
            return write_out([found], out)
        if not self._shape and not self._layout.sharding.partial_axes:
            return found[()]
        return self._make(owned(found, self._shape, grid, blocks), self._layout, grid)


def _way(operand: Any, held: Held, stop: Sharding, grid: ProcessGrid) -> Sharding | tuple[slice, ...] | None:
    """None: the operand as it is; slices of it that are the block; or the sharding to which it is brought."""
    if held.sharding is None:
        if not isinstance(operand, np.ndarray) or not operand.ndim:
            return None
        return stop.shard_slices(operand.shape, grid.own_coords)
    if is_in_place(held, stop):
        if held.sharding.halo_sizes is None:
            return ()  # all of the local array
        return operand.layout.core_in_local(grid.own_coords).slices()
    return stop


def plan_contraction(
    application: Application,
    out: Sequence[Any] | None = None,
    out_sharding: Sharding | None = None,
    memory_limit: int | None = None,
) -> ContractionCourse:
    """The course of a contraction; all that can be refused is refused here.

    Collective over the grid where operands are large: the processes then agree on the memory that is free.  Raises
    `GridError`, `ShardingError`, `ReductionError`, `OutputError` and `DTypeError`, alike on every process.
    """
    operands, interface, name = application.operands, application.interface, application.name
    check_operands(name, operands)
    sharded = [operand for operand in operands if is_sharded(operand)]
    if not sharded:
        raise OutputError(f"{name}: out is a ShardedArray, and no operand is")
    reference = reference_of(operands)
    for operand in sharded:
        reference.grid.check_same_program(operand.grid, name)
    if out_sharding is not None:
        reference = _array_on_grid_of(name, out_sharding, sharded, reference)
    if memory_limit is not None and (as_ints((memory_limit,)) or (-1,))[0] < 0:
        raise ShardingError(f"{name}: memory_limit is {memory_limit!r}; it must be a whole number of bytes, at least 0")
    (dtype,) = trial_dtypes(application)
    if out_sharding is not None:
        _check_requested(name, out_sharding, interface.result_shape(), dtype)
    held = tuple(
        [
            Held(x.sharding, x.shape, x.dtype) if is_sharded(x) else Held(None, np.shape(x), np.asarray(x).dtype)
            for x in operands
        ]
    )
    grid = reference.grid
    links = links_of(grid)
    choose = application.name, interface, held, dtype, grid.grid, out_sharding, links
    if memory_limit is not None:
        scheme = choose_scheme(*choose, memory_limit, _sends_messages(name, grid))
    else:
        scheme = choose_scheme(*choose)
        if scheme.staging > _SMALL:
            share = all_reduce(np.int64(_free_share(grid)), grid, None, "min")
            scheme = choose_scheme(*choose, max(int(share), _SMALL), _sends_messages(name, grid))
    if out is not None:
        (target,) = out
        check_sharded_out(name, target, Layout(scheme.result, interface.result_shape()), grid)
        check_out_dtype(name, target, dtype)
    return ContractionCourse(application, scheme, held, dtype, reference)


def _array_on_grid_of(
    name: str, requested: Sharding, sharded: list[ArrayOnGrid], reference: ArrayOnGrid
) -> ArrayOnGrid:
    """The operand on the grid of the requested sharding."""
    if not isinstance(requested, Sharding):
        raise ShardingError(f"{name}: out_sharding is {requested!r}; it must be a Sharding")
    for operand in (reference, *sharded):
        if operand.grid.grid == requested.grid:
            return operand
    shown = ", ".join(dict.fromkeys(repr(operand.grid.grid) for operand in sharded))
    raise GridError(f"{name}: out_sharding is on {requested.grid!r}; it must be on a grid of an operand: {shown}")


def _check_requested(name: str, requested: Sharding, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if requested.partial_axes and requested.partial_kind != "sum":
        raise ReductionError(
            f"{name}: out_sharding has partial_kind {requested.partial_kind!r}; contractions sum, so it must be 'sum'"
        )
    try:
        Layout(requested, shape).check_addressable(dtype.itemsize)
    except ShardingError as error:
        raise ShardingError(f"{name}: out_sharding: {error}") from None
    requested.check_dtype(name, dtype)


def links_of(grid: ProcessGrid) -> LinkModel:
    """The links between the grid's processes, as far as they are known: who shares a node, of several.  Local.

    On one node ways are compared as between nodes: what else they take there has not been measured.
    """
    return grid.links() if len(set(grid.process.nodes)) > 1 else LinkModel()


def _sends_messages(name: str, grid: ProcessGrid) -> bool:
    """Whether panels travel in messages, beside which processes can compute.  Collective.

    Where all share memory, they copy the cells themselves, and nothing could hide that.
    """
    comm = grid.process.gate.run(name, grid.group, tuple(range(grid.ndim)))
    return path_for(comm, chosen_path()) != DIRECT


def _free_share(grid: ProcessGrid) -> int:
    """This process's share of half the memory that is free on its node.  Local."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) * 1024
    arena = grid.process.arena
    near = sum(arena.base_of(process) is not None for process in grid.grid.ranks or range(grid.size))
    return free // 2 // max(near, 1)
