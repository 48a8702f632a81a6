"""linalg: named operations, and how reductions combine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.ir import Operation
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr

from spmd_grid.dialect.execute.operations.scalars import cast, quotient
from spmd_grid.dialect.execute.reading import attribute, integers, name_of
from spmd_grid.dialect.execute.table import Runner, handles
from spmd_grid.dialect.execute.values import one_number, repeated
from spmd_grid.dialect.syntax.other_dialects.linalg import PRODUCTS
from spmd_grid.errors import ShapeError
from spmd_grid.functions.elementwise import erf
from spmd_grid.functions.table import call

__all__ = ["COMBINERS", "combined_with", "given", "loops_of", "multiplied", "parts_of", "subscripts_of"]

# Reductions by the operation that combines: numpy's for an axis, numpy's for two arrays, and what leaves others as
# they are, for floating-point numbers and for integers.
COMBINERS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any]] = {
    **dict.fromkeys(("arith.addf", "arith.addi", "stablehlo.add"), (np.sum, np.add, 0)),
    **dict.fromkeys(("arith.mulf", "arith.muli", "stablehlo.multiply"), (np.prod, np.multiply, 1)),
    **dict.fromkeys(("arith.maximumf", "arith.maxsi", "stablehlo.maximum"), (np.max, np.maximum, "lowest")),
    **dict.fromkeys(("arith.minimumf", "arith.minsi", "stablehlo.minimum"), (np.min, np.minimum, "highest")),
}


def _neutral(name: str, dtype: np.dtype) -> Any:
    word = COMBINERS[name][2]
    if not isinstance(word, str):
        return dtype.type(word)
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if word == "lowest" else np.iinfo(dtype).max
    if dtype.kind == "b":
        return np.bool_(word == "highest")
    return dtype.type(-np.inf if word == "lowest" else np.inf)


def combined_with(name: str, x: Any, dims: Sequence[int], init: Any) -> Any:
    """``x`` reduced over ``dims`` by an operation, and combined with ``init``.  The dtype stays."""
    reduce, combine, _ = COMBINERS[name]
    dtype = x.dtype
    found = x
    if dims:
        options = {"dtype": dtype} if reduce in (np.sum, np.prod) else {}
        if reduce in (np.max, np.min):
            options["initial"] = _neutral(name, dtype)
        if not isinstance(x, np.ndarray):
            options.pop("initial", None)
        found = cast(reduce(x, axis=tuple(dims), **options), dtype)
    number = one_number(init) if isinstance(init, np.ndarray) and init.ndim else init
    if isinstance(number, np.generic | np.ndarray) and not getattr(number, "shape", ()):
        if bool(number == _neutral(name, dtype)):
            return found
        init = number if not isinstance(found, np.ndarray) else init
    return combine(init, found)


# -- named operations ----------------------------------------------------------------------------------------------


def parts_of(op: Operation, operands: Sequence[Any], n_outputs: int = 1) -> tuple[Sequence[Any], Sequence[Any]]:
    """The inputs and the outputs of a structured operation."""
    return operands[: len(operands) - n_outputs], operands[len(operands) - n_outputs :]


def given(op: Operation, outputs: Sequence[Any], found: Sequence[Any]) -> list[Any]:
    """The results; buffers among the outputs are written to."""
    if op.results:
        return list(found)
    for output, each in zip(outputs, found, strict=True):
        output[...] = each
    return []


_NAMED: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": quotient,
    "erf": lambda x: call(erf, x),
    "max": np.maximum,
    "min": np.minimum,
    "powf": np.power,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x),
    "square": np.square,
    "tanh": np.tanh,
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "negf": np.negative,
    "reciprocal": lambda x: x.dtype.type(1) / x,
    "select": np.where,
    "copy": lambda x: x,
}


@handles(*[f"linalg.{name}" for name in _NAMED])
def _named(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    inputs, outputs = parts_of(op, operands)
    name = name_of(op).partition(".")[2]
    found = _NAMED[name](*runner.thin(inputs))
    if found.shape != outputs[0].shape:
        raise ShapeError(f"the inputs have shape {found.shape}; the output has {outputs[0].shape}")
    return given(op, outputs, [cast(found, outputs[0].dtype)])


@handles("linalg.fill")
def _fill(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    number, output = operands
    if isinstance(number, np.generic) or (isinstance(number, np.ndarray) and not number.ndim):
        return given(op, [output], [repeated(number, output.shape, output.dtype)])
    return given(op, [output], [np.broadcast_to(cast(number, output.dtype), output.shape)])


@handles("linalg.transpose")
def _transpose(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, output = operands
    return given(op, [output], [np.transpose(x, integers(op, "permutation"))])


@handles("linalg.broadcast")
def _broadcast(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    x, output = operands
    return given(op, [output], [np.broadcast_to(np.expand_dims(x, integers(op, "dimensions")), output.shape)])


_PRODUCTS = {"matmul": "mk,kn->mn", **PRODUCTS}


@handles(*[f"linalg.{name}" for name in _PRODUCTS])
def _product(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    (a, b), (output,) = parts_of(op, operands)
    name = name_of(op).partition(".")[2]
    maps = loops_of(op)
    subscripts = _PRODUCTS[name] if not maps else subscripts_of(maps)
    a, b = cast(a, output.dtype), cast(b, output.dtype)  # the cells are extended before they are multiplied
    found = multiplied(subscripts, a, b)
    if found.shape != output.shape:
        raise ShapeError(f"the product has shape {found.shape}; the output has {output.shape}")
    return given(op, [output], [combined_with("arith.addf", cast(found, output.dtype), (), output)])


def multiplied(subscripts: str, a: Any, b: Any) -> Any:
    """A product of two arrays: numpy's matmul where the subscripts are its own.

    Cells of extension types such as bfloat16, of which numpy's einsum knows none, are multiplied and added as float32.
    """
    a, b = [cast(x, np.dtype("f4")) if x.dtype.kind == "V" else x for x in (a, b)]
    operands, _, result = subscripts.partition("->")
    first, _, second = operands.partition(",")
    batch = first[:-2]
    if (
        len(first) >= 2
        and second == f"{batch}{first[-1]}{second[-1:]}"
        and result == f"{batch}{first[-2]}{second[-1:]}"
    ):
        return np.matmul(a, b)
    return np.einsum(subscripts, a, b)


def loops_of(op: Operation) -> list[tuple[int | None, ...]]:
    """The loop of each dimension of the operands; None for the constant 0.  Raises ShapeError for other maps."""
    found = attribute(op, "indexing_maps")
    if not isinstance(found, ArrayAttr):
        return []
    maps = []
    for each in found:
        if not isinstance(each, AffineMapAttr):
            raise ShapeError(f"an indexing map is {each}")
        dims: list[int | None] = []
        for part in each.data.results:
            if isinstance(part, AffineDimExpr):
                dims.append(part.position)
            elif isinstance(part, AffineConstantExpr) and part.value == 0:
                dims.append(None)
            else:
                raise ShapeError(f"indexing map {each.data} has the entry {part}; each must be a loop")
        maps.append(tuple(dims))
    return maps


def subscripts_of(maps: Sequence[Sequence[int | None]]) -> str:
    texts = ["".join(["abcdefghijklmnopqrstuvwxyz"[d] for d in each if d is not None]) for each in maps]
    return f"{','.join(texts[:-1])}->{texts[-1]}"
