"""Arguments of calls in the engine's own texts: functions by name, plain arguments, constants, and cells of slices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from spmd_grid.compute.indexing.index import Selection
from spmd_grid.dialect.execute.reading import attribute, dtype_of, integers, name_of
from spmd_grid.errors import ImplicitGatherError, ShapeError
from spmd_grid.functions.interface import Application
from spmd_grid.functions.names import arguments_of, function_name, function_named
from spmd_grid.functions.table import call, entry_of, is_array
from spmd_grid.functions.trials import on_whole_arrays
from spmd_grid.program.text.calls import CONSTANT, MANUAL, OPAQUE

__all__ = [
    "as_called",
    "index_of",
    "is_constant_value",
    "named_function",
    "plain_arguments",
    "selection_of",
    "with_weak_numbers",
]

_CONSTANTS = "arith.constant", "complex.constant", CONSTANT


def named_function(name: str) -> Callable[..., Any]:
    """The function of a name such as ``numpy.fft.fft`` or ``numpy.maximum.accumulate``.  Raises ImplicitGatherError."""
    if name in (MANUAL, OPAQUE):
        raise ImplicitGatherError(f"{name} is a call of Python's, which the text does not hold")
    function = function_named(name)
    if function is None:
        raise ImplicitGatherError(f"{name} is no function that a text may call, which are those with a sharding rule")
    return function


def plain_arguments(op: Operation, function: Callable[..., Any]) -> dict[str, Any]:
    """The plain arguments of a call: the attributes that are arguments of its function's rule, and no others."""
    given, known = {**op.attributes, **op.properties}, arguments_of(function)
    return {name: _plain(found) for name, found in given.items() if name in known}


def _plain(found: Attribute) -> Any:
    """An attribute as the plain argument of a call."""
    if isinstance(found, IntegerAttr):
        width = getattr(getattr(found.type, "width", None), "data", 0)
        return bool(found.value.data) if width == 1 else int(found.value.data)
    if isinstance(found, FloatAttr):
        return float(found.value.data)
    if isinstance(found, StringAttr):
        return found.data
    if isinstance(found, DenseArrayBase):
        return tuple(found.get_values())
    if isinstance(found, ArrayAttr):
        return tuple([_plain(each) for each in found])
    return dtype_of(found)


def as_called(function: Callable[..., Any], arrays: Sequence[Any], options: dict[str, Any]) -> Any:
    """The results of a function of numpy, with arguments as its signature has them."""
    if function is np.einsum:
        if "subscripts" not in options:
            raise ShapeError("numpy.einsum: the attribute subscripts is missing")
        return function(options["subscripts"], *arrays, **{k: x for k, x in options.items() if k != "subscripts"})
    if function is np.concatenate:
        return function(list(arrays), **options)
    entry = entry_of(function) if function_name(function).startswith("spmd_grid.") else None
    if entry is None:
        return function(*arrays, **options)
    if entry.kind == "composite" or any(map(is_array, arrays)):
        return call(function, *arrays, **options)
    found = entry.call(*arrays, **options)  # of plain arrays, the rule says what to compute
    return on_whole_arrays(found) if isinstance(found, Application) else found


def is_constant_value(x: SSAValue) -> bool:
    """Whether a value is a constant of the text."""
    return isinstance(x, OpResult) and name_of(x.op) in _CONSTANTS


def with_weak_numbers(op: Operation, operands: Sequence[Any]) -> list[Any]:
    """The operands, with Python's numbers for constants of one cell where the arrays alone decide the result's dtype.

    The text gives a number that the function wrote down a type of its own, such as i64; to numpy it had none.
    """
    dtypes = {x.dtype for x, value in zip(operands, op.operands) if not is_constant_value(value)}
    due = {dtype_of(x.type) for x in op.results}
    if len(dtypes) != 1 or not due <= {*dtypes, np.dtype(bool)}:
        return list(operands)
    kinds = "biufc"
    rank = kinds.index(next(iter(dtypes)).kind) if next(iter(dtypes)).kind in kinds else -1
    return [
        x.item() if is_constant_value(value) and not np.ndim(x) and 0 <= kinds.find(x.dtype.kind) <= rank else x
        for x, value in zip(operands, op.operands)
    ]


def index_of(op: Operation, arrays: Sequence[Any] = ()) -> tuple[Any, ...]:
    """The index that the attribute ``key`` is, with arrays in their places.  Raises ShapeError."""
    found, given = attribute(op, "key"), iter(arrays)
    if not isinstance(found, ArrayAttr):
        raise ShapeError(f"attribute key is {found}; it must be a list")
    return tuple([_part_of_index(_plain(each), given) for each in found])


def _part_of_index(part: Any, arrays: Iterator[Any]) -> Any:
    if isinstance(part, tuple):
        return np.array(part, None if part else np.intp)
    if not isinstance(part, str):
        return part
    if part == "array":
        return next(arrays)
    if part in ("new", "..."):
        return None if part == "new" else Ellipsis
    if not re.fullmatch(r"(-?\d*):(-?\d*)(:-?\d+)?", part):
        raise ShapeError(f"attribute key has {part!r}; it must be a slice, array, new or ...")
    return slice(*[int(n) if n else None for n in part.split(":")])


def selection_of(op: Operation) -> Selection:
    """The cells that the attributes of a slice name."""
    names = "offsets", "sizes", "strides", "flipped", "dropped", "new"
    return Selection(*[integers(op, name) for name in names])
