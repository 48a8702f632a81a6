"""Operations of the engine's own texts: functions of numpy by their names, with plain arguments as attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation

from spmd_grid.compute.indexing.index import Selection
from spmd_grid.dialect.execute.layouts import block_at, has_layouts
from spmd_grid.dialect.execute.operations.arguments import (
    as_called,
    index_of,
    is_constant_value,
    named_function,
    plain_arguments,
    selection_of,
    with_weak_numbers,
)
from spmd_grid.dialect.execute.operations.own_steps import own_concatenate, own_layouts, own_reshape
from spmd_grid.dialect.execute.operations.rebuilt import blocks_by_rule
from spmd_grid.dialect.execute.reading import attribute, dtype_of, integer, integers, name_of, shape_of, text_of
from spmd_grid.dialect.execute.table import HANDLERS, Runner, handles, needs_devices

__all__ = ["numpy_call"]


def numpy_call(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    """The results of ``numpy.NAME``: the function of numpy, with the attributes as its arguments."""
    name = name_of(op)
    operands = with_weak_numbers(op, runner.thin(operands))
    if has_layouts(op) and runner.devices is not None:
        found = _collectively(runner, op, operands) if attribute(op, "collective") else None
        found = blocks_by_rule(runner, op, operands) if found is None else found
    else:
        if attribute(op, "of") is not None:
            name = text_of(attribute(op, "of"))
        function = named_function(name)
        found = as_called(function, operands[: _count(op)], plain_arguments(op, function))
        found = list(found) if len(op.results) > 1 else [found]
    return [_as_due(x, dtype_of(result.type)) for x, result in zip(found, op.results, strict=True)]


def _count(op: Operation) -> int:
    """The number of operands that the function takes; the others are of its rule."""
    given = integers(op, "operands")
    return given[0] if given else len(op.operands)


def _as_due(found: Any, dtype: np.dtype) -> Any:
    """A result in the element type of the text.  Raises TypeError for what is neither an array nor a number."""
    if isinstance(found, bool | int | float | complex):
        found = np.asarray(found)
    if not hasattr(found, "astype"):
        raise TypeError(f"gives {type(found).__name__}, which is no array")
    return found if found.dtype == dtype else found.astype(dtype)


def _collectively(runner: Runner, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """A function that arrays compute by communication of their own."""
    function, found = named_function(name_of(op)), attribute(op, "operands")
    names = [text_of(each) for each in found] if isinstance(found, ArrayAttr) else []
    options = plain_arguments(op, function)

    def call(*arrays: Any) -> Any:
        return function(**dict(zip(names, arrays)), **options) if names else as_called(function, arrays, options)

    return _on_wholes(runner, op, operands, call)


def _on_wholes(runner: Runner, op: Operation, operands: Sequence[Any], function: Callable[..., Any]) -> list[Any]:
    """The results of a function of whole arrays; of blocks, those of the results."""
    if not has_layouts(op) or runner.devices is None:
        return [function(*operands)]
    layouts, _ = own_layouts(runner, op)
    sources = [None if is_constant_value(x) else layout for x, layout in zip(op.operands, layouts.sources)]
    return needs_devices(runner, name_of(op)).collectively(layouts.grid, function, operands, sources, layouts.targets)


@handles("spmd_grid.pick")
def _pick(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return _on_wholes(runner, op, operands, lambda a, *arrays: a[index_of(op, arrays)])


@handles("spmd_grid.write")
def _write(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    def written(a: Any, value: Any) -> Any:
        a = np.copy(a)
        a[index_of(op)] = value
        return a

    return _on_wholes(runner, op, operands, written)


@handles("spmd_grid.put_along_axis")
def _put_along(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    axis = integer(op, "axis") if attribute(op, "axis") is not None else None

    def written(a: Any, at: Any, value: Any) -> Any:
        a = np.copy(a)
        np.put_along_axis(a, at, value, axis)
        return a

    return _on_wholes(runner, op, operands, written)


HANDLERS["numpy.*"] = numpy_call
HANDLERS["spmd_grid.*"] = numpy_call


@handles("numpy.astype")
def _astype(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return operands[0].astype(dtype_of(op.results[0].type))


@handles("numpy.constant")
def _constant(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    """The constant, or of one that is cut the block of this device."""
    if not has_layouts(op) or runner.devices is None:
        return operands[0]
    layouts, coords = own_layouts(runner, op)
    return block_at(np.asarray(operands[0]), layouts.targets[0], coords)


@handles("spmd_grid.constrain", "spmd_grid.same_cells")
def _same(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return operands[0]


@handles("numpy.getitem")
def _getitem(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    cells = selection_of(op)
    found = operands[0][_cells(cells)]
    key = cells.view_key()
    return found if key is None else found[key]


@handles("numpy.setitem")
def _setitem(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    found = np.copy(operands[0])
    found[_cells(selection_of(op))] = operands[1]
    return found


def _cells(cells: Selection) -> tuple[slice, ...]:
    """The selected cells, none of them walked backwards."""
    return tuple(
        [
            slice(start, start + (n - 1) * step + 1, step) if n else slice(0, 0)
            for start, n, step in zip(cells.starts, cells.counts, cells.steps)
        ]
    )


@handles("numpy.reshape")
def _reshape(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    if has_layouts(op) and runner.devices is not None:
        return own_reshape(runner, op, operands)
    return np.reshape(operands[0], shape_of(op.results[0].type))


@handles("numpy.concatenate")
def _concatenate(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    if has_layouts(op) and runner.devices is not None:
        return own_concatenate(runner, op, operands)
    return np.concatenate(list(operands), **plain_arguments(op, np.concatenate)).astype(dtype_of(op.results[0].type))
