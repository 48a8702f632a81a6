"""Arguments of calls in the engine's own texts: functions by name, plain arguments, constants, and cells of slices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from spmd_grid.compute.indexing.index import Selection
from spmd_grid.dialect.execute.reading import attribute, dtype_of, integers, name_of
from spmd_grid.errors import ImplicitGatherError, ShapeError
from spmd_grid.functions.table import call, rule_named
from spmd_grid.program.text.calls import CONSTANT

__all__ = [
    "as_called",
    "index_of",
    "is_constant_value",
    "named_function",
    "plain_arguments",
    "selection_of",
    "with_weak_numbers",
]

# The parser keeps the name of an operation that it does not know; the others say what operands are.
_NOT_ARGUMENTS = {"collective", "of", "of_types", "op_name__", "operands", "sharding", "sources", "targets"}
_OF_PYTHON = "spmd_grid.opaque", "spmd_grid.manual"
_CONSTANTS = "arith.constant", "complex.constant", CONSTANT


def named_function(name: str) -> Callable[..., Any]:
    """The function of numpy of a name such as ``numpy.fft.fft`` or ``numpy.maximum.accumulate``, or of a rule.

    Raises ImplicitGatherError.
    """
    if name in _OF_PYTHON:
        raise ImplicitGatherError(f"{name} is a call of Python's, which the text does not hold")
    root, *path = name.split(".")
    found: Any = reduce(_part_of, path, np) if root == "numpy" and path else None
    if root == "spmd_grid" and len(path) == 1:
        found = rule_named(path[0])
    if not callable(found) or any(part.startswith("_") for part in path):
        raise ImplicitGatherError(f"{name} is neither a function of numpy nor one of the engine's rules")
    function: Callable[..., Any] = found
    return function


def _part_of(at: Any, name: str) -> Any:
    return getattr(at, name, None)


def plain_arguments(op: Operation) -> dict[str, Any]:
    """The plain arguments of a call, which are attributes."""
    given = {**op.attributes, **op.properties}
    return {name: _plain(found) for name, found in given.items() if name not in _NOT_ARGUMENTS}


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
        return function(options["subscripts"], *arrays, **{k: x for k, x in options.items() if k != "subscripts"})
    if function is np.concatenate:
        return function(list(arrays), **options)
    if rule_named(getattr(function, "__name__", "")) is function:
        return call(function, *arrays, **options)
    return function(*arrays, **options)


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
