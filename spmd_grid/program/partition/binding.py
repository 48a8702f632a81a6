"""The function of an operation bound to a device: plain operands cut to its blocks, neighbouring cells put in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from spmd_grid.compute.course.windows import WindowCells
from spmd_grid.compute.splits import Splits
from spmd_grid.functions.interface import Interface
from spmd_grid.program.ir import Constant, Operation
from spmd_grid.program.partition.steps import Bind
from spmd_grid.typing import MultiIndex, Shape

__all__ = ["bind_local", "is_plain_call", "local_call", "plain_blocks", "reads_neighbours"]


def bind_local(operation: Operation, splits: Splits) -> Bind:
    """The operation's ``local`` for a device: a function of the blocks that it holds."""

    def bind(coords: MultiIndex) -> Callable[..., Any]:
        call, plain = local_call(operation, splits, coords), plain_blocks(operation, splits, coords)
        if not plain:
            return call
        return lambda *given: call(*[plain.get(i, x) for i, x in enumerate(given)])

    return bind


def local_call(operation: Operation, splits: Splits, coords: MultiIndex) -> Callable[..., Any]:
    """The operation's ``local`` for the device at ``coords``: a function of the blocks of all its operands."""
    interface, call = operation.interface, operation.local
    assert call is not None  # only operations with a lowering of their own have none
    if operation.located:
        every = splits.sharding(tuple(range(len(interface.iterators))))
        call = partial(call, every.core_box(tuple([each.extent for each in interface.iterators]), coords).starts)
    if _result_is_longer(interface):
        shapes = [
            splits.sharding(by).local_shape(interface.result_shape(i), coords) for i, by in enumerate(interface.results)
        ]
        call = _of_shapes(call, shapes)
    windows = _windows(operation, splits, coords)
    return call if not windows else _in_windows(call, windows)


def is_plain_call(operation: Operation) -> bool:
    """Whether a device calls the operation's ``local`` as it is."""
    interface = operation.interface
    reads = any(reads_neighbours(interface, i) for i in range(len(interface.operands)))
    return not (operation.located or reads or _result_is_longer(interface))


def _in_windows(call: Callable[..., Any], windows: dict[int, WindowCells]) -> Callable[..., Any]:
    """``call`` with the cells that the steps read of some of the operands."""
    return lambda *blocks: call(*[windows[i].block(x) if i in windows else x for i, x in enumerate(blocks)])


def reads_neighbours(interface: Interface, number: int) -> bool:
    """Whether the steps read more cells of an operand than those of their own blocks."""
    return bool(interface.halos) and any(map(any, interface.halos[number]))


def _result_is_longer(interface: Interface) -> bool:
    """Whether a result runs along a dimension that no operand has: then its cells are repeated along it."""
    along = {i for by in interface.operands for i in by}
    return any(i is not None and i not in along for by in interface.results for i in by)


def _of_shapes(call: Callable[..., Any], shapes: Sequence[Shape]) -> Callable[..., Any]:
    """``call`` with results of these shapes; those that are shorter are repeated."""

    def repeated(*blocks: Any) -> Any:
        found = call(*blocks)
        results = found if isinstance(found, tuple) else (found,)
        made = [
            each if np.shape(each) == shape else np.array(np.broadcast_to(each, shape))
            for each, shape in zip(results, shapes)
        ]
        return tuple(made) if isinstance(found, tuple) else made[0]

    return repeated


def plain_blocks(operation: Operation, splits: Splits, coords: MultiIndex) -> dict[int, np.ndarray]:
    """The cells of plain arrays that the device's steps read; all of them where a window cuts them later."""
    interface = operation.interface
    blocks = {}
    for i, x in enumerate(operation.operands):
        if isinstance(x, Constant) and x.shape:
            cells = splits.sharding(interface.operands[i]).core_slices(x.shape, coords)
            blocks[i] = x.value if reads_neighbours(interface, i) else np.ascontiguousarray(x.value[cells])
    return blocks


def _windows(operation: Operation, splits: Splits, coords: MultiIndex) -> dict[int, WindowCells]:
    interface = operation.interface
    windows = {}
    for i, x in enumerate(operation.operands):
        if reads_neighbours(interface, i):
            sharding, steps = splits.sharding(interface.operands[i]), interface.steps_of(i)
            windows[i] = WindowCells(x.shape, not isinstance(x, Constant), sharding, steps, interface.halos[i], coords)
    return windows
