"""One function on sharded arrays: operands are resharded, blocks computed, partial results combined.

The shardings, layouts and the way of each operand are found once for all operands of the same layouts and dtypes, and
kept as a `Course`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from spmd_grid.compute.course.combine import Combination
from spmd_grid.compute.course.output import check_out_dtype, check_sharded_out, write_out
from spmd_grid.compute.course.shares import own_share
from spmd_grid.compute.course.windows import Window
from spmd_grid.compute.splits import (
    ArrayOnGrid,
    Splits,
    choose_splits,
    is_sharded,
    one_layout,
    plain_sharding,
    reference_of,
)
from spmd_grid.compute.views import attach
from spmd_grid.errors import DTypeError, ImplicitGatherError, OutputError
from spmd_grid.exchange.transfer.flat_bytes import copy_views
from spmd_grid.functions.interface import WHOLE, Application, Interface
from spmd_grid.functions.table import is_array
from spmd_grid.functions.trials import trial_dtypes
from spmd_grid.functions.ways import OneWay
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.outcome import run_alike
from spmd_grid.ops.reduction.folding import quiet_context
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.typing import Shape

__all__ = [
    "Course",
    "apply",
    "check_operands",
    "owned",
    "plan_course",
    "sharded_like",
]

_LARGE = 1 << 17  # bytes; from this size on a compiled copy is worth its preparation


def apply(application: Application, out: Sequence[Any] | None = None, reference: ArrayOnGrid | None = None) -> Any:
    """The results of a function, as sharded arrays; a number where a result has lost its dimensions.

    Collective over the grid.  ``reference``: the operand whose layout decides, by default that with the most bytes.
    ``out``: arrays of the result's layout.  Raises `GridError`, `OutputError`, `DTypeError` and `ImplicitGatherError`,
    alike on every process and before anything moves.
    """
    return plan_course(application, out, reference).run(application.operands, out)


class Course:
    """The way one function runs on operands of certain layouts and dtypes, on one process.

    ``ways``: for each operand None (a number, taken as it is), slices of its local array that are the block, or the
    sharding to which it is brought, or a `Window`.  ``shares``: slices of the blocks, where devices that hold the same
    cells share the work of a reduction to a number; then all devices combine the same parts in the same order, and get
    equal bits.
    """

    __slots__ = (
        "_block",
        "_combination",
        "_finish",
        "_gives_numbers",
        "_layouts",
        "_local",
        "_make",
        "_may_fail",
        "_meets",
        "_name",
        "_quiet",
        "_shapes",
        "_shares",
        "_way",
        "_ways",
        "grid",
    )

    def __init__(self, application: Application, splits: Splits, layouts: list[Layout], reference: ArrayOnGrid):
        interface, grid = application.interface, reference.grid
        self.grid = grid
        self._name = application.name
        self._local = application.local
        self._may_fail = application.may_fail and grid.size > 1
        self._way = None if application.way is None else (application.way,)
        self._finish = application.finish
        self._make = type(reference)
        self._gives_numbers = reference.ndim > 0 or bool(application.kind)
        self._layouts = layouts = [one_layout(each) for each in layouts]
        self._shapes = [layout.local_shape(grid.own_coords) for layout in layouts]
        merged = _merged_axes(application, reference)
        self._ways = [
            _way(application, splits, i, grid, bool(merged) and operand is reference)
            for i, operand in enumerate(application.operands)
        ]
        axes = _combined_axes(interface, splits, grid, merged)
        dtypes = tuple([operand.dtype for operand in application.operands if is_sharded(operand)])
        self._combination = (
            Combination(self._name, grid, axes, application.kind, dtypes, reference.layout) if axes else None
        )
        self._quiet = quiet_context() if application.kind else None  # for any number of processes alike
        self._shares: list[tuple[slice, ...] | None] | None = None
        if application.located or interface.gives_numbers:
            self._divide(application, splits, merged)
        self._meets = (
            bool(axes)
            or self._may_fail
            or any(type(way) is Sharding or (type(way) is Window and way.moves) for way in self._ways)
        )
        # Of the only operand of a function that gives a number: the block, where nothing but the number moves.
        way = self._ways[0]
        is_short = len(self._ways) == 1 and interface.gives_numbers and not self._shares and not layouts[0].ndim
        self._block = way if is_short and type(way) is tuple else None

    def _divide(self, application: Application, splits: Splits, merged: tuple[int, ...]) -> None:
        """Finds what this device takes of blocks that others hold too, and where its blocks start."""
        interface, grid = application.interface, self.grid
        every = splits.sharding(tuple(range(len(interface.iterators))))
        box = every.core_box(tuple([each.extent for each in interface.iterators]), grid.own_coords)
        starts = box.starts
        if interface.gives_numbers:
            share = own_share(box.shape, grid, [axis for axis in every.replicated_axes if axis not in merged])
            if share is not None:
                starts = tuple([start + (part.start or 0) for start, part in zip(starts, share)])
                self._shares = [
                    tuple([slice(None) if i is None else share[i] for i in each]) or None for each in interface.operands
                ]
        if application.located:
            self._local = partial(application.local, starts)

    def run(self, operands: Sequence[Any], out: Sequence[Any] | None = None) -> Any:
        """The results for ``operands``.  Collective over the grid, if anything moves or is combined."""
        if self._meets:
            found = self.grid.process.gate.run(self._name, self._run, operands, out)
        else:
            found = self._run(operands, out)
        if self._way is not None and out is None and type(found) is self._make:
            is_one_way = isinstance(self._way[0], OneWay)
            attach(found, operands[0], self._way, is_read_only=is_one_way)
        return found

    def run_alone(self, operand: ArrayOnGrid) -> Any:
        """The results for one operand, with no ``out``.  Collective as `run`."""
        if self._block is None:
            return self.run((operand,))
        return self.grid.process.gate.run(self._name, self._number, operand) if self._meets else self._number(operand)

    def _number(self, operand: ArrayOnGrid) -> Any:
        """The short form of `_run`, which must not take longer than its message."""
        quiet, finish = self._quiet, self._finish
        try:
            found = quiet.run(self._local, operand.stored[self._block])  # type: ignore[union-attr]  # for it is a reduction
        except Exception as error:
            self._tell(error)
            raise
        if self._combination is not None:
            found = self._combination.of(found)
        if finish is not None:
            found = quiet.run(finish, found)  # type: ignore[union-attr]
        return np.asarray(found)[()]

    def _run(self, operands: Sequence[Any], out: Sequence[Any] | None) -> Any:
        blocks = []
        for operand, way in zip(operands, self._ways):
            if way is None:
                blocks.append(operand)
            elif isinstance(way, Window):
                blocks.append(way.block(operand))
            elif isinstance(way, Sharding):
                blocks.append(reshard_local(operand.stored, operand.sharding, way, operand.grid, operand.shape))
            else:
                blocks.append((operand if isinstance(operand, np.ndarray) else operand.stored)[way])
        if self._shares is not None:
            blocks = [block if cells is None else block[cells] for block, cells in zip(blocks, self._shares)]
        try:
            if self._may_fail:
                found = run_alike(self.grid, self._name, self._local, *blocks)
            else:
                found = self._local(*blocks) if self._quiet is None else self._quiet.run(self._local, *blocks)
        except Exception as error:
            if self._may_fail:  # on all processes
                raise
            self._tell(error)
            raise
        results = list(found) if isinstance(found, tuple) else [found]
        if self._combination is not None:
            results = [self._combination.of(each) for each in results]
        finish = self._finish
        if finish is not None:
            results = [finish(each) if self._quiet is None else self._quiet.run(finish, each) for each in results]
        if out is not None:
            return write_out(results, out)
        made = [
            self._result(array, layout, shape, blocks)
            for array, layout, shape in zip(results, self._layouts, self._shapes, strict=True)
        ]
        return made[0] if len(made) == 1 else tuple(made)

    def _tell(self, error: Exception) -> None:
        """Tells the others of an error in the local computation, if they still meet this process in the operation."""
        if self._combination is not None:
            self._combination.refuse(error)
        elif self._meets:
            self.grid.process.gate.spare(error)  # which notes it where the operation was called

    def _result(self, array: Any, layout: Layout, shape: Shape, blocks: Sequence[Any]) -> Any:
        array = np.asarray(array)
        if not layout.ndim and self._gives_numbers:
            return array[()]
        return self._make(owned(array, shape, self.grid, blocks), layout, self.grid)


def _way(
    application: Application, splits: Splits, number: int, grid: ProcessGrid, merged: bool
) -> Sharding | Window | tuple[slice, ...] | None:
    operand, interface = application.operands[number], application.interface
    sharding = splits.sharding(interface.operands[number])
    if interface.halos and any(map(any, interface.halos[number])):
        return Window(operand, sharding, interface.steps_of(number), interface.halos[number], grid)
    if not is_sharded(operand):
        if not isinstance(operand, np.ndarray) or not operand.ndim:
            return None
        return sharding.shard_slices(operand.shape, grid.own_coords)
    held = operand.sharding
    if held.grid == sharding.grid and plain_sharding(held) == sharding and (merged or not held.partial_axes):
        return operand.layout.core_in_local(grid.own_coords).slices()
    return sharding


def _merged_axes(application: Application, reference: ArrayOnGrid) -> tuple[int, ...]:
    """The axes along which the first operand holds partial values that the function combines in its own reduction."""
    if not application.merges or application.operands[0] is not reference:
        return ()
    held = reference.sharding
    return held.partial_axes if held.partial_kind == application.kind else ()


def _combined_axes(interface: Interface, splits: Splits, grid: ProcessGrid, merged: tuple[int, ...]) -> tuple[int, ...]:
    """The axes over which devices combine what they found: for a number all, so that all find equal bits."""
    if interface.gives_numbers:
        return tuple(range(grid.ndim)) if grid.size > 1 else ()
    # Along axes of one device there is nothing to combine.
    return tuple([axis for axis in (*splits.axes_of_reductions(interface), *merged) if grid.shape[axis] > 1])


def plan_course(
    application: Application, out: Sequence[Any] | None = None, reference: ArrayOnGrid | None = None
) -> Course:
    """The course of a function; all that can be refused is refused here.  Local."""
    operands, interface, name = application.operands, application.interface, application.name
    check_operands(name, operands)
    if not any(map(is_sharded, operands)):
        raise OutputError(f"{name}: out is a ShardedArray, and no operand is")
    reference = reference_of(operands) if reference is None else reference
    grid = reference.grid
    for operand in operands:
        if is_sharded(operand):
            grid.check_same_program(operand.grid, name)
    splits = choose_splits(interface, operands, reference)
    _refuse_whole_arrays(application, splits)
    layouts = [
        Layout(splits.sharding(each), interface.result_shape(number)) for number, each in enumerate(interface.results)
    ]
    dtypes = trial_dtypes(application)
    if out is not None:
        for target, layout, dtype in zip(out, layouts, dtypes, strict=True):
            check_sharded_out(name, target, layout, grid)
            check_out_dtype(name, target, dtype)
    return Course(application, splits, layouts, reference)


def check_operands(name: str, operands: Sequence[Any]) -> None:
    """Refuses operands that are neither sharded arrays nor plain arrays or numbers.  Raises DTypeError."""
    for each in operands:
        if is_array(each) and not is_sharded(each) and any(map(is_sharded, operands)):
            raise DTypeError(
                f"{name}: an operand is a ShardedArray, and another {each!r}, of a function that is being traced; such"
                " a function must take all sharded arrays as arguments"
            )
        if isinstance(each, np.ndarray) and each.dtype.hasobject:
            raise DTypeError(f"{name}: an operand has dtype {each.dtype}; it must be one of fixed size")
        if not is_array(each) and not isinstance(each, np.ndarray | np.generic | bool | int | float | complex):
            raise DTypeError(
                f"{name}: an operand is {type(each).__name__}; it must be a ShardedArray, or a number or numpy array"
                " that is equal on all processes"
            )


def sharded_like(reference: ArrayOnGrid, array: Any, layout: Layout, sources: Sequence[Any] = ()) -> Any:
    """A sharded array of ``layout`` with the local ``array``; a number where it has lost its dimensions.  Local.

    ``sources``: arrays with which the result must not share memory.
    """
    array = np.asarray(array)
    if not layout.ndim and reference.ndim:
        return array[()]
    shape = layout.local_shape(reference.grid.own_coords)
    return type(reference)(owned(array, shape, reference.grid, sources), layout, reference.grid)


def owned(array: np.ndarray, shape: Shape, grid: ProcessGrid, sources: Sequence[Any]) -> np.ndarray:
    """``array``, or a copy if it is not contiguous, shorter than ``shape`` or shares memory with ``sources``."""
    flags = array.flags
    if array.shape == shape and flags.c_contiguous and flags.writeable:
        for source in sources:
            if isinstance(source, np.ndarray) and np.may_share_memory(array, source):
                break
        else:
            return array
    copy = grid.allocate(shape, array.dtype)
    if copy.nbytes >= _LARGE and array.shape == shape and min(array.strides) > 0:
        copy_views([(array, copy)])  # transposes them several times as fast as numpy's assignment
    else:
        copy[...] = array
    return copy


def _refuse_whole_arrays(application: Application, splits: Splits) -> None:
    """Refuses functions that would make every process hold all of an array that is spread."""
    interface = application.interface
    if all(iterator.kind != WHOLE for iterator in interface.iterators) or any(splits.axes):
        return
    if any(is_sharded(x) and _is_spread(x.sharding) for x in application.operands):
        raise ImplicitGatherError(
            f"{application.name}: the dimension along which it works must be whole on a process, and the array has no"
            " other to be cut along: to_global() gathers all of it (collective)"
        )


def _is_spread(sharding: Sharding) -> bool:
    return any(sharding.grid.shape[axis] > 1 for cut in sharding.split_axes for axis in cut)
