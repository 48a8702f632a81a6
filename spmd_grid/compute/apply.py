"""One function on sharded arrays: operands are resharded, blocks computed, partial results combined.

The shardings, layouts and the way of each operand are found once for all operands of the same layouts and dtypes, and
kept as a `Course`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.compute.splits import (
    ArrayOnGrid,
    Splits,
    block_starts,
    choose_splits,
    is_sharded,
    plain_sharding,
    reference_of,
)
from spmd_grid.compute.windows import Window
from spmd_grid.errors import DTypeError, ImplicitGatherError, OutputError
from spmd_grid.functions.interface import WHOLE, Application, Interface
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.reshard.execute import reshard_local
from spmd_grid.typing import Shape

__all__ = [
    "Course",
    "apply",
    "check_operands",
    "check_out",
    "check_out_dtype",
    "owned",
    "plan_course",
    "sharded_like",
    "trial_dtypes",
    "write_out",
]


def apply(application: Application, out: Sequence[Any] | None = None, reference: ArrayOnGrid | None = None) -> Any:
    """The results of a function, as sharded arrays; a number where a result has no dimensions.

    Collective over the grid.  ``reference``: the operand whose layout decides, by default that with the most bytes.
    ``out``: arrays of the result's layout.  Raises `GridError`, `OutputError`, `DTypeError` and `ImplicitGatherError`,
    alike on every process and before anything moves.
    """
    return plan_course(application, out, reference).run(application.operands, out)


class Course:
    """The way one function runs on operands of certain layouts and dtypes, on one process.

    ``ways``: for each operand None (a number, taken as it is), slices of its local array that are the block, or the
    sharding to which it is brought, or a `Window`.
    """

    __slots__ = (
        "_axes",
        "_finish",
        "_kind",
        "_layouts",
        "_local",
        "_make",
        "_moves",
        "_name",
        "_shapes",
        "_ways",
        "grid",
    )

    def __init__(
        self,
        application: Application,
        splits: Splits,
        layouts: list[Layout],
        reference: ArrayOnGrid,
    ):
        interface, grid = application.interface, reference.grid
        self.grid = grid
        self._name = application.name
        self._local = application.local
        self._finish = application.finish
        self._kind = application.kind
        self._make = type(reference)
        self._layouts = layouts
        self._shapes = [layout.local_shape(grid.own_coords) for layout in layouts]
        # Along axes of one device there is nothing to combine.
        self._axes = tuple([axis for axis in splits.axes_of_reductions(interface) if grid.shape[axis] > 1])
        self._ways = [_way(application, splits, i, grid) for i in range(len(application.operands))]
        self._moves = bool(self._axes) or any(
            type(way) is Sharding or (type(way) is Window and way.moves) for way in self._ways
        )

    def run(self, operands: Sequence[Any], out: Sequence[Any] | None = None) -> Any:
        """The results for ``operands``.  Collective over the grid, if anything moves or is combined."""
        if self._moves:
            return self.grid.process.gate.run(self._name, self._run, operands, out)
        return self._run(operands, out)

    def _run(self, operands: Sequence[Any], out: Sequence[Any] | None) -> Any:
        grid = self.grid
        blocks = []
        for operand, way in zip(operands, self._ways):
            if way is None:
                blocks.append(operand)
            elif isinstance(way, Window):
                blocks.append(way.block(operand))
            elif isinstance(way, Sharding):
                blocks.append(reshard_local(operand.local, operand.sharding, way, operand.grid, operand.shape))
            else:
                blocks.append((operand if isinstance(operand, np.ndarray) else operand.local)[way])
        found = self._local(*blocks)
        results = list(found) if isinstance(found, tuple) else [found]
        if self._axes:
            reduction = self._kind, None
            results = [all_reduce.run_in_gate(np.asarray(each), grid, self._axes, reduction) for each in results]
        if self._finish is not None:
            results = [self._finish(each) for each in results]
        if out is not None:
            return write_out(results, out)
        made = [
            self._result(array, layout, shape, blocks)
            for array, layout, shape in zip(results, self._layouts, self._shapes, strict=True)
        ]
        return made[0] if len(made) == 1 else tuple(made)

    def _result(self, array: Any, layout: Layout, shape: Shape, blocks: Sequence[Any]) -> Any:
        array = np.asarray(array)
        if not shape:
            return array[()]
        return self._make(owned(array, shape, self.grid, blocks), layout, self.grid)


def _way(
    application: Application, splits: Splits, number: int, grid: ProcessGrid
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
    if held.grid == sharding.grid and plain_sharding(held) == sharding and not held.partial_axes:
        return operand.layout.core_in_local(grid.own_coords).slices()
    return sharding


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
            check_out(name, target, layout, grid)
            check_out_dtype(name, target, dtype)
    return Course(application, splits, layouts, reference)


def check_operands(name: str, operands: Sequence[Any]) -> None:
    """Refuses operands that are neither sharded arrays nor plain arrays or numbers.  Raises DTypeError."""
    for each in operands:
        if not is_sharded(each) and not isinstance(each, np.ndarray | np.generic | bool | int | float | complex):
            raise DTypeError(
                f"{name}: an operand is {type(each).__name__}; it must be a ShardedArray, or a number or numpy array"
                " that is equal on all processes"
            )


def trial_dtypes(application: Application) -> list[np.dtype]:
    """The dtypes of the results, found by the function on blocks of one cell.

    All that numpy refuses by dtypes and plain arguments it refuses here, on every process and before anything moves.
    """
    interface = application.interface
    blocks = [_trial_block(operand, i, interface) for i, operand in enumerate(application.operands)]
    with np.errstate(all="ignore"):
        try:
            found = application.local(*blocks)
        except TypeError as error:
            raise DTypeError(f"{application.name}: {error}") from None
        results = found if isinstance(found, tuple) else (found,)
        if application.finish is not None:
            results = tuple([application.finish(np.asarray(each)) for each in results])
    return [np.asarray(each).dtype for each in results]


def _trial_block(operand: Any, number: int, interface: Interface) -> Any:
    if not is_sharded(operand) and not (isinstance(operand, np.ndarray) and operand.ndim):
        return operand
    iterators = [None if i is None else interface.iterators[i] for i in interface.operands[number]]
    shape = [each.extent if each is not None and each.kind == WHOLE else 1 for each in iterators]
    if interface.halos:
        shape = [n + sum(halo) for n, halo in zip(shape, interface.halos[number])]
    return np.ones(shape, operand.dtype)


def sharded_like(reference: ArrayOnGrid, array: Any, layout: Layout, sources: Sequence[Any] = ()) -> Any:
    """A sharded array of ``layout`` with the local ``array``; a number where it has no dimensions.  Local.

    ``sources``: arrays with which the result must not share memory.
    """
    array = np.asarray(array)
    if not layout.ndim:
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


# -- out= ----------------------------------------------------------------------------------------------------------


def check_out(name: str, target: Any, layout: Layout, grid: ProcessGrid) -> None:
    """Refuses an ``out`` that is not an array of the result's layout.  Local.  Raises GridError and OutputError."""
    if not is_sharded(target):
        raise OutputError(f"{name}: out is {type(target).__name__}; it must be a ShardedArray, as the result is")
    grid.check_same_program(target.grid, name)
    if target.shape != layout.global_shape:
        raise OutputError(f"{name}: out has shape {target.shape}; the result has shape {layout.global_shape}")
    if target.grid.grid != grid.grid or not _same_cuts(target.sharding, layout.sharding, layout.global_shape):
        raise OutputError(f"{name}: out has sharding {target.sharding}; the result has {layout.sharding}")
    if not target.local.flags.writeable:
        raise OutputError(f"{name}: out is read-only")


def check_out_dtype(name: str, target: ArrayOnGrid, dtype: np.dtype) -> None:
    """Refuses an ``out`` to whose dtype results are not cast without loss of kind.  Local.  Raises OutputError."""
    if not np.can_cast(dtype, target.dtype, "same_kind"):
        raise OutputError(f"{name}: out has dtype {target.dtype}; the result of dtype {dtype} is not cast to it")


def write_out(results: Sequence[Any], out: Sequence[ArrayOnGrid]) -> Any:
    """``out`` with the local cells of the results.  Local."""
    for array, target in zip(results, out):
        target.core[...] = array
        target.mark_dirty()
    return out[0] if len(out) == 1 else tuple(out)


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
