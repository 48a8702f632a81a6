"""Calls of the engine's own texts that blocks cannot tell: made again from their layouts, as the tracer makes them.

Examples are an argmax whose rows are cut, the total of a mean, and a function whose result is longer than its operands.
The call is traced on arrays of the global extents, and the steps of its rule run on the blocks of this device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation

from spmd_grid.compute.splits import Splits, plain_sharding, splits_of
from spmd_grid.dialect.execute.layouts import Layouts
from spmd_grid.dialect.execute.operations.arguments import as_called, is_constant_value, named_function, plain_arguments
from spmd_grid.dialect.execute.operations.own_steps import own_layouts
from spmd_grid.dialect.execute.reading import attribute, dtype_of, integer, name_of, numbers_of, shape_of, text_of
from spmd_grid.dialect.execute.table import Runner
from spmd_grid.errors import ImplicitGatherError
from spmd_grid.functions.interface import IndexingMap
from spmd_grid.functions.names import function_name
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.ir import Operation as TracedOperation
from spmd_grid.program.partition.binding import bind_local
from spmd_grid.program.trace.traced_array import TracedArray
from spmd_grid.program.trace.tracer import Tracer

__all__ = ["blocks_by_rule"]

_FINISH = "_finish"


def blocks_by_rule(runner: Runner, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """The blocks of the results of a call, by the rule of its function."""
    call = runner.kept((op, "call"), lambda: _bound(runner, op, operands))
    found = call(*operands)
    return list(found) if isinstance(found, tuple) else [found]


def _bound(runner: Runner, op: Operation, operands: Sequence[Any]) -> Callable[..., Any]:
    layouts, coords = own_layouts(runner, op)
    traced = _traced_again(op, layouts, operands)
    return bind_local(traced, _splits(op, traced, layouts))(coords)


def _traced_again(op: Operation, layouts: Layouts, operands: Sequence[Any]) -> TracedOperation:
    """The operation of the tracer.  Raises ImplicitGatherError where the call has none that fits."""
    name = name_of(op)
    called = text_of(attribute(op, "of")) if attribute(op, "of") is not None else name
    kinds = attribute(op, "of_types")
    with Tracer(TracedArray) as tracer:
        if isinstance(kinds, ArrayAttr):  # of what the total was found
            arrays = [tracer.argument(tuple(map(_extent, shape_of(each))), dtype_of(each), "x") for each in kinds]
        else:
            arrays = [
                x if is_constant_value(value) else tracer.argument(layout.global_shape, dtype_of(value.type), "x")
                for x, value, layout in zip(operands, op.operands, layouts.sources)
            ][: integer(op, "operands", default=len(operands))]
        function = named_function(called)
        as_called(function, arrays, plain_arguments(op, function))
    for each in reversed(tracer.operations):
        is_it = each.name.endswith(_FINISH) if name.endswith(_FINISH) else _is_call(each, function_name(function))
        if is_it and each.local is not None and len(each.operands) == len(op.operands):
            return each
    raise ImplicitGatherError(f"{name} of {called} is no call that can be made again from the text")


def _is_call(operation: TracedOperation, name: str) -> bool:
    """Whether an operation of the tracer is a call that the text calls so."""
    return operation.function is not None and function_name(operation.function) == name


def _extent(n: int | None) -> int:
    if n is None:
        raise ImplicitGatherError("of_types has extents that are known at run time only")
    return n


def _splits(op: Operation, traced: TracedOperation, layouts: Layouts) -> Splits:
    """The splits that the attribute ``sharding`` names, with the blocks of the operands and results."""
    interface, grid = traced.interface, (*layouts.sources, *layouts.targets)[0].sharding.grid
    found: Any = attribute(op, "sharding")
    lists = [numbers_of(each) for each in found] if isinstance(found, ArrayAttr) else []
    axes = [*lists, *[()] * (len(interface.iterators) - len(lists))]
    cuts: dict[int, tuple[Sharding, int]] = {}
    pairs: list[tuple[Any, IndexingMap]] = [*zip(layouts.sources, interface.operands)]
    pairs += zip(layouts.targets, interface.results)
    for layout, by in pairs:
        sharding = plain_sharding(layout.sharding)
        for dim, iterator in enumerate(by):
            if iterator is not None and sharding.axes_of(dim) == axes[iterator] and axes[iterator]:
                cuts.setdefault(iterator, (sharding, dim))
    return splits_of(interface, grid, cuts, axes)
