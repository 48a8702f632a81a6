"""Attributes, types and lines of operations, wherever the parser has put them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from linecache import getline
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from spmd_grid.dialect.syntax.encodings import DtypeType
from spmd_grid.dialect.syntax.positions import known_position
from spmd_grid.errors import DTypeError, ShapeError
from spmd_grid.program.text.types import SHORT_FLOATS
from spmd_grid.python_text import literal_of

__all__ = [
    "DYNAMIC",
    "attribute",
    "cells_of",
    "dtype_of",
    "has",
    "in_wider_dtypes",
    "integer",
    "integers",
    "is_shaped",
    "mixed",
    "name_of",
    "numbers_of",
    "scalar_of",
    "shape_of",
    "symbol",
    "text_of",
    "value_name",
]

DYNAMIC = -(2**63)  # stands in a list of numbers for one that is an operand
_RESULT = re.compile(r"%([\w$.-]+)(?::(\d+))?")
_RESULTS = re.compile(r"%[\w$.:-]+(\s*,\s*%[\w$.:-]+)*\s*=\s*$")
_SHORT_FLOATS = {spelling: name for name, spelling in SHORT_FLOATS.items()}
_FLOATS: dict[type, str] = {Float16Type: "f2", Float32Type: "f4", Float64Type: "f8"}


def name_of(op: Operation) -> str:
    """The name of an operation, such as ``arith.addf``."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def value_name(value: SSAValue) -> str:
    """The name of a value as the text has it, without the percent sign; "" where it has none.

    The parser forgets names that are numbers; they are found again in the text, where it is a file.
    """
    if value.name_hint or not isinstance(value, OpResult):
        return value.name_hint or ""
    position = known_position(value.op)
    found = _RESULTS.search(getline(position.file_name, position.line)[: position.column - 1])
    names = [
        f"{name}#{i}" if count else name
        for name, count in (_RESULT.findall(found[0]) if found else ())
        for i in range(int(count or 1))
    ]
    return names[value.index] if len(names) == len(value.op.results) else ""


def attribute(op: Operation, *names: str) -> Attribute | None:
    """The first attribute or property of one of these names."""
    for name in names:
        found = op.properties.get(name, op.attributes.get(name))
        if found is not None:
            return found
    return None


def has(op: Operation, name: str) -> bool:
    """Whether a unit attribute is there; one that is a boolean counts by its value."""
    found = attribute(op, name)
    return found is not None and not (isinstance(found, IntegerAttr) and not found.value.data)


def integer(op: Operation, *names: str, default: int | None = None) -> int:
    """An attribute that is a whole number.  Raises ShapeError where there is none."""
    found = attribute(op, *names)
    if isinstance(found, IntegerAttr):
        return int(found.value.data)
    if default is None:
        raise ShapeError(f"{name_of(op)}: attribute {names[0]} is {found}; it must be a whole number")
    return default


def integers(op: Operation, *names: str) -> tuple[int, ...]:
    """An attribute that is a list of whole numbers; () where there is none."""
    return numbers_of(attribute(op, *names))


def numbers_of(found: Any) -> tuple[int, ...]:
    """The whole numbers of an attribute; () of none."""
    if found is None:
        return ()
    if isinstance(found, DenseArrayBase):
        return tuple([int(n) for n in found.get_values()])
    if isinstance(found, DenseIntOrFPElementsAttr):
        return tuple([int(n) for n in cells_of(found).reshape(-1)])
    if isinstance(found, IntegerAttr):
        return (int(found.value.data),)
    return tuple([n for each in found for n in numbers_of(each)])


def mixed(static: Sequence[int], dynamic: Iterator[Any]) -> list[int]:
    """Numbers of which some are operands: the list with those put in, in order."""
    return [int(next(dynamic)) if n == DYNAMIC else int(n) for n in static]


def symbol(op: Operation, name: str) -> str:
    """An attribute that is the name of a symbol, without the @."""
    found = attribute(op, name)
    if isinstance(found, SymbolRefAttr):
        return found.root_reference.data
    return found.data if isinstance(found, StringAttr) else ""


def text_of(found: Attribute | None) -> str:
    """An attribute that is a word: a string, or a case of an enumeration."""
    if isinstance(found, StringAttr):
        return found.data
    data = getattr(found, "data", found)
    return str(getattr(data, "value", data))


# -- types ---------------------------------------------------------------------------------------------------------


def is_shaped(kind: Attribute) -> bool:
    """Whether a type is that of a ranked tensor or buffer."""
    return isinstance(kind, TensorType | MemRefType)


def shape_of(kind: Attribute) -> tuple[int | None, ...]:
    """The extents of a type, None where they are known at run time only; () of a number."""
    if not isinstance(kind, TensorType | MemRefType):
        return ()
    return tuple([None if n in (-1, DYNAMIC) else n for n in kind.get_shape()])


_WIDER = {"f2": "f8", "f4": "f8", "f8": "g", "c8": "c16", "c16": "G"}
_is_wide: ContextVar[bool] = ContextVar("wide", default=False)


@contextmanager
def in_wider_dtypes() -> Iterator[None]:
    """Within this context, of one thread, floating-point types have more digits than the text says."""
    token = _is_wide.set(True)
    try:
        yield
    finally:
        _is_wide.reset(token)


def dtype_of(kind: Attribute) -> np.dtype:
    """The element type, by `in_wider_dtypes` a wider one.  Raises DTypeError for those that numpy does not have.

    ``i1`` is bool and other signless integers are signed, as operations that mean unsigned ones say so.
    """
    found = _dtype_in_text(kind)
    if not _is_wide.get():
        return found
    return np.dtype("f8") if found.kind == "V" and "float" in found.name else np.dtype(_WIDER.get(found.str[1:], found))


def _dtype_in_text(kind: Attribute) -> np.dtype:
    element = kind.get_element_type() if isinstance(kind, TensorType | MemRefType) else kind
    if isinstance(element, IndexType):
        return np.dtype(np.int64)
    if isinstance(element, IntegerType):
        bits = element.width.data
        if bits == 1:
            return np.dtype(bool)
        if bits in (8, 16, 32, 64):
            return np.dtype(f"{'u' if element.signedness.data is Signedness.UNSIGNED else 'i'}{bits // 8}")
    if str(element) in _SHORT_FLOATS:
        return _of_ml_dtypes(_SHORT_FLOATS[str(element)], str(element))
    if type(element) in _FLOATS:
        return np.dtype(_FLOATS[type(element)])
    if isinstance(element, ComplexType):
        part = _dtype_in_text(element.element_type)
        if part.kind == "f" and part.itemsize in (4, 8):
            return np.dtype(f"c{2 * part.itemsize}")
    if isinstance(element, DtypeType):
        return _named_dtype(element.dtype.data)
    raise DTypeError(f"element type {element} has no counterpart in numpy; use i1, i8 to i64, f16 to f64 or complex")


def _named_dtype(name: str) -> np.dtype:
    """The dtype that numpy calls so, such as datetime64[s], or a list of fields."""
    try:
        found = np.dtype(literal_of(name) if name.startswith("[") else name)
    except (TypeError, ValueError, SyntaxError) as error:
        raise DTypeError(f"element type {name!r} is none of numpy's: {error}") from None
    if found.hasobject:
        raise DTypeError(f"element type {name!r} holds Python's objects; it must be of fixed size")
    return found


def _of_ml_dtypes(name: str, spelling: str) -> np.dtype:
    try:
        import ml_dtypes
    except ImportError:
        raise DTypeError(f"element type {spelling} needs the package ml_dtypes: pip install ml_dtypes") from None
    return np.dtype(getattr(ml_dtypes, name))


def cells_of(dense: Attribute) -> np.ndarray:
    """A constant array; where all cells are one number, an array that repeats it without memory.

    Raises ShapeError where the text does not hold the cells.
    """
    if not isinstance(dense, DenseIntOrFPElementsAttr):
        raise ShapeError(f"the cells of the constant are not in the text, which has {dense}; print it without eliding")
    kind = dense.type
    dtype, shape = _dtype_in_text(kind), tuple(kind.get_shape())
    data, n = dense.data.data, int(np.prod(shape))
    cells = np.frombuffer(data, dtype) if len(data) % dtype.itemsize == 0 else np.empty(0, dtype)
    if dtype.kind == "b":
        cells = np.frombuffer(data, np.uint8) != 0  # xdsl has -1 for true
    if len(cells) not in (1, n):
        raise ShapeError(f"a constant of type {kind} has {len(cells)} cells; it must have {n}")
    cells = cells.astype(dtype_of(kind), copy=False)
    if n and (cells == cells[0]).all():
        return np.broadcast_to(cells[0], shape)
    return cells.reshape(shape)


def scalar_of(found: Attribute) -> Any:
    """A constant number or array of an attribute.  Raises DTypeError."""
    if isinstance(found, DenseIntOrFPElementsAttr):
        return cells_of(found)
    if isinstance(found, IntegerAttr):
        return dtype_of(found.type).type(_wrapped(found.value.data, dtype_of(found.type)))
    if isinstance(found, FloatAttr):
        kind: AnyFloat = found.type
        number = _dtype_in_text(kind).type(found.value.data)  # rounded, before there are more digits
        return np.asarray(number).astype(dtype_of(kind))[()]
    raise DTypeError(f"constant {found} is neither a number nor a dense array")


def _wrapped(n: int, dtype: np.dtype) -> int:
    """The number in the range of the dtype, by two's complement."""
    if dtype.kind == "b":
        return n & 1
    size = 8 * dtype.itemsize
    n &= (1 << size) - 1
    return n - (1 << size) if dtype.kind == "i" and n >> (size - 1) else n
