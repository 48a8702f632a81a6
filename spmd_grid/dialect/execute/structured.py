"""linalg: loops over cells, computed in whole arrays.

A generic operation's body is computed once, on arrays that are laid out along all loops; reductions whose body combines
with the old value by one operation are numpy's.  Others go through the steps of the reduction in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.ir import Block, BlockArgument, Operation
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr

from spmd_grid.dialect.execute.reading import attribute, dtype_of, integer, integers, is_shaped, name_of, text_of
from spmd_grid.dialect.execute.scalars import cast
from spmd_grid.dialect.execute.table import Machine, handles
from spmd_grid.dialect.execute.values import one_number, repeated
from spmd_grid.errors import ShapeError

__all__ = ["combined_with"]

# Reductions by the operation that combines: numpy's for an axis, numpy's for two arrays, and what leaves others as
# they are, for floating-point numbers and for integers.
_COMBINERS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any]] = {
    **dict.fromkeys(("arith.addf", "arith.addi", "stablehlo.add", "mhlo.add"), (np.sum, np.add, 0)),
    **dict.fromkeys(("arith.mulf", "arith.muli", "stablehlo.multiply", "mhlo.multiply"), (np.prod, np.multiply, 1)),
    **dict.fromkeys(
        ("arith.maximumf", "arith.maxsi", "stablehlo.maximum", "mhlo.maximum"), (np.max, np.maximum, "lowest")
    ),
    **dict.fromkeys(
        ("arith.minimumf", "arith.minsi", "stablehlo.minimum", "mhlo.minimum"), (np.min, np.minimum, "highest")
    ),
}


def _neutral(name: str, dtype: np.dtype) -> Any:
    word = _COMBINERS[name][2]
    if not isinstance(word, str):
        return dtype.type(word)
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if word == "lowest" else np.iinfo(dtype).max
    if dtype.kind == "b":
        return np.bool_(word == "highest")
    return dtype.type(-np.inf if word == "lowest" else np.inf)


def combined_with(name: str, x: Any, dims: Sequence[int], init: Any) -> Any:
    """``x`` reduced over ``dims`` by an operation, and combined with ``init``.  The dtype stays."""
    reduce, combine, _ = _COMBINERS[name]
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


def _parts(op: Operation, operands: Sequence[Any], n_outputs: int = 1) -> tuple[Sequence[Any], Sequence[Any]]:
    """The inputs and the outputs of a structured operation."""
    return operands[: len(operands) - n_outputs], operands[len(operands) - n_outputs :]


def _given(op: Operation, outputs: Sequence[Any], found: Sequence[Any]) -> list[Any]:
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
    "div": np.divide,
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
def _named(machine: Machine, op: Operation, operands: Sequence[Any]) -> Any:
    inputs, outputs = _parts(op, operands)
    name = name_of(op).partition(".")[2]
    function = _NAMED[name]
    if name == "div" and outputs[0].dtype.kind in "iu":
        function = np.floor_divide
    found = function(*machine.thin(inputs))
    if found.shape != outputs[0].shape:
        raise ShapeError(f"the inputs have shape {found.shape}; the output has {outputs[0].shape}")
    return _given(op, outputs, [cast(found, outputs[0].dtype)])


@handles("linalg.fill")
def _fill(machine: Machine, op: Operation, operands: Sequence[Any]) -> Any:
    number, output = operands
    if isinstance(number, np.generic) or (isinstance(number, np.ndarray) and not number.ndim):
        return _given(op, [output], [repeated(number, output.shape, output.dtype)])
    return _given(op, [output], [np.broadcast_to(cast(number, output.dtype), output.shape)])


@handles("linalg.transpose")
def _transpose(machine: Machine, op: Operation, operands: Sequence[Any]) -> Any:
    x, output = operands
    return _given(op, [output], [np.transpose(x, integers(op, "permutation"))])


@handles("linalg.broadcast")
def _broadcast(machine: Machine, op: Operation, operands: Sequence[Any]) -> Any:
    x, output = operands
    return _given(op, [output], [np.broadcast_to(np.expand_dims(x, integers(op, "dimensions")), output.shape)])


_PRODUCTS = {
    "matmul": "mk,kn->mn",
    "matmul_transpose_a": "km,kn->mn",
    "matmul_transpose_b": "mk,nk->mn",
    "batch_matmul": "bmk,bkn->bmn",
    "batch_matmul_transpose_a": "bkm,bkn->bmn",
    "batch_matmul_transpose_b": "bmk,bnk->bmn",
    "batch_reduce_matmul": "bmk,bkn->mn",
    "matvec": "mn,n->m",
    "vecmat": "m,mn->n",
    "batch_matvec": "bmk,bk->bm",
    "dot": "k,k->",
}


@handles(*[f"linalg.{name}" for name in _PRODUCTS])
def _product(machine: Machine, op: Operation, operands: Sequence[Any]) -> Any:
    (a, b), (output,) = _parts(op, operands)
    name = name_of(op).partition(".")[2]
    maps = _maps(op)
    subscripts = _PRODUCTS[name] if not maps else _subscripts(maps)
    a, b = cast(a, output.dtype), cast(b, output.dtype)  # the cells are extended before they are multiplied
    found = _multiplied(subscripts, a, b)
    if found.shape != output.shape:
        raise ShapeError(f"the product has shape {found.shape}; the output has {output.shape}")
    return _given(op, [output], [combined_with("arith.addf", cast(found, output.dtype), (), output)])


def _multiplied(subscripts: str, a: Any, b: Any) -> Any:
    """A product of two arrays: numpy's matmul where the subscripts are its own."""
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


@handles("linalg.reduce")
def _reduce(machine: Machine, op: Operation, operands: Sequence[Any]) -> Any:
    n = len(operands) // 2
    inputs, inits = operands[:n], operands[n:]
    dims = integers(op, "dimensions")
    loops = inputs[0].ndim
    kept = [d for d in range(loops) if d not in dims]
    maps = [tuple(range(loops))] * n + [tuple(kept)] * n
    return _generic_of(machine, op, inputs, inits, maps, set(dims), inputs[0].shape)


# -- generic operations --------------------------------------------------------------------------------------------


def _maps(op: Operation) -> list[tuple[int | None, ...]]:
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


def _subscripts(maps: Sequence[Sequence[int | None]]) -> str:
    texts = ["".join(["abcdefghijklmnopqrstuvwxyz"[d] for d in each if d is not None]) for each in maps]
    return f"{','.join(texts[:-1])}->{texts[-1]}"


@handles("linalg.generic", "linalg.map")
def _generic(machine: Machine, op: Operation, operands: Sequence[Any]) -> Any:
    maps = _maps(op)
    if name_of(op) == "linalg.map":
        maps = [tuple(range(len(x.shape))) for x in operands]
    n_outputs = len(op.results) or sum(is_shaped(x.type) for x in op.operands[_n_inputs(op) :])
    inputs, outputs = _parts(op, operands, n_outputs)
    kinds = attribute(op, "iterator_types")
    loops = [text_of(each) for each in kinds] if isinstance(kinds, ArrayAttr) else ["parallel"] * len(maps[-1])
    sizes: dict[int, int] = {}
    for x, dims in zip(operands, maps, strict=True):
        for d, n in zip(dims, x.shape, strict=True):
            if d is not None and sizes.setdefault(d, n) != n:
                raise ShapeError(f"loop {d} has {sizes[d]} steps and {n}, by the shapes of the operands")
    if len(sizes) != len(loops):
        raise ShapeError(f"of {len(loops)} loops {len(sizes)} occur in indexing maps; each must")
    reduced = {d for d, kind in enumerate(loops) if kind != "parallel"}
    shape = tuple([sizes[d] for d in range(len(loops))])
    return _generic_of(machine, op, inputs, outputs, maps, reduced, shape)


def _n_inputs(op: Operation) -> int:
    sizes = integers(op, "operandSegmentSizes")
    return sizes[0] if sizes else len(op.operands) - 1


def _generic_of(
    machine: Machine,
    op: Operation,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    maps: Sequence[Sequence[int | None]],
    reduced: set[int],
    shape: tuple[int, ...],
) -> list[Any]:
    """The results of a body over loops of these extents."""
    block = op.regions[0].block
    laid = [_along(x, dims, len(shape)) for x, dims in zip(inputs, maps)]
    if not reduced:
        old = [_along(x, dims, len(shape)) for x, dims in zip(outputs, maps[len(inputs) :])]
        with _looping(machine, shape):
            found = machine.run_block(block, machine.thin([*laid, *old])[: len(block.args)])
        results = [_gathered(each, dims, shape, x.dtype) for each, dims, x in zip(found, maps[len(inputs) :], outputs)]
        return _given(op, outputs, results)
    combiners = [_combiner(block, len(inputs) + number, number) for number in range(len(outputs))]
    if None in combiners:
        return _given(op, outputs, _in_order(machine, block, laid, outputs, maps[len(inputs) :], reduced, shape))
    results = []
    for number, (combiner, x) in enumerate(zip(combiners, outputs)):
        assert combiner is not None  # of a list without None
        dims = maps[len(inputs) + number]
        subscripts = _contraction(block, combiner, inputs, maps, number)
        if subscripts is not None:
            first, second = (cast(each, x.dtype) for each in inputs)
            results.append(
                combined_with(name_of(combiner), cast(_multiplied(subscripts, first, second), x.dtype), (), x)
            )
            continue
        with _looping(machine, shape):
            term = _term(machine, block, combiner, laid)
        whole = np.broadcast_to(term, shape) if term.shape != shape else term
        kept = sorted(d for d in dims if d is not None)
        part = combined_with(name_of(combiner), whole, sorted(reduced), _sorted_dims(x, dims))
        results.append(_transposed(part, kept, dims))
    return _given(op, outputs, results)


def _along(x: Any, dims: Sequence[int | None], n: int) -> Any:
    """``x`` laid out along the loops, with extent 1 along those that it does not depend on."""
    if not getattr(x, "shape", ()):
        return x
    number = one_number(x)
    if number is not None:
        extents = dict(zip(dims, x.shape))
        return repeated(number, tuple([extents.get(d, 1) for d in range(n)]), x.dtype)
    if None in dims:
        x = np.reshape(x, tuple([m for m, d in zip(x.shape, dims) if d is not None]))
        dims = [d for d in dims if d is not None]
    order = sorted(range(len(dims)), key=lambda i: dims[i])  # type: ignore[arg-type,return-value]  # no None is left
    if order != list(range(len(dims))):
        x = np.transpose(x, order)
    missing = tuple([d for d in range(n) if d not in dims])
    return np.expand_dims(x, missing) if missing else x


def _gathered(x: Any, dims: Sequence[int | None], shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """The result from what was computed along the loops."""
    if getattr(x, "shape", ()) != shape:
        x = np.broadcast_to(x, shape)
    return cast(_transposed(x, list(range(len(shape))), dims), dtype)


def _transposed(x: Any, kept: Sequence[int], dims: Sequence[int | None]) -> Any:
    order = [kept.index(d) for d in dims if d is not None]
    found = x if order == sorted(order) else np.transpose(x, order)
    return np.expand_dims(found, tuple([i for i, d in enumerate(dims) if d is None])) if None in dims else found


def _sorted_dims(x: Any, dims: Sequence[int | None]) -> Any:
    number = one_number(x)
    if None in dims:
        x = np.reshape(x, tuple([m for m, d in zip(x.shape, dims) if d is not None]))
    known = [d for d in dims if d is not None]
    order = sorted(range(len(known)), key=lambda i: known[i])
    if number is not None:
        return repeated(number, tuple([x.shape[i] for i in order]), x.dtype)
    return x if order == sorted(order) else np.transpose(x, order)


def _combiner(block: Block, argument: int, number: int) -> Operation | None:
    """The operation that combines the old value of an output with a term that does not depend on it."""
    last = block.last_op
    if last is None:
        return None
    old = block.args[argument]
    found = last.operands[number].owner
    if not isinstance(found, Operation) or name_of(found) not in _COMBINERS or len(list(old.uses)) != 1:
        return None
    return found if old in found.operands else None


def _contraction(
    block: Block, combiner: Operation, inputs: Sequence[Any], maps: Sequence[Sequence[int | None]], number: int
) -> str | None:
    """The subscripts of a sum of products of two inputs, which numpy computes without a product of all loops."""
    if len(inputs) != 2 or _COMBINERS[name_of(combiner)][0] is not np.sum or any(None in dims for dims in maps):
        return None
    term = next((x for x in combiner.operands if not isinstance(x, BlockArgument)), None)
    owner = None if term is None else term.owner
    if not isinstance(owner, Operation) or name_of(owner) not in ("arith.mulf", "arith.muli"):
        return None
    if {id(x) for x in owner.operands} != {id(x) for x in block.args[:2]}:
        return None
    return _subscripts([maps[0], maps[1], maps[len(inputs) + number]])


def _term(machine: Machine, block: Block, combiner: Operation, laid: Sequence[Any]) -> Any:
    """What a combining operation combines with the old value."""
    inputs = len(laid)
    old = next(x for x in combiner.operands if isinstance(x, BlockArgument) and x.index >= inputs)
    machine.run_block(block, [*laid, *[_stand_in(x) for x in block.args[inputs:]]], combiner)
    other = combiner.operands[1] if combiner.operands[0] is old else combiner.operands[0]
    return machine.value(other)


def _stand_in(x: BlockArgument) -> Any:
    return dtype_of(x.type).type(0)


@contextmanager
def _looping(machine: Machine, shape: tuple[int, ...], at: Mapping[int, int] | None = None) -> Iterator[None]:
    """Let ``linalg.index`` know the loops; ``at``: the steps of those that go on one after the other."""
    machine.loops.append((shape, at or {}))
    try:
        yield
    finally:
        machine.loops.pop()


@handles("linalg.index")
def _index(machine: Machine, op: Operation, operands: Sequence[Any]) -> Any:
    if not machine.loops:
        raise ShapeError("linalg.index stands outside of a structured operation")
    shape, at = machine.loops[-1]
    d = integer(op, "dim")
    if d in at:
        return np.int64(at[d])
    return np.arange(shape[d]).reshape(tuple([n if i == d else 1 for i, n in enumerate(shape)]))


def _in_order(
    machine: Machine,
    block: Block,
    laid: Sequence[Any],
    outputs: Sequence[Any],
    maps: Sequence[Sequence[int | None]],
    reduced: set[int],
    shape: tuple[int, ...],
) -> list[Any]:
    """The results of a body that combines in its own way: the steps of the reduction in order."""
    if machine.is_tracing:
        raise ShapeError("the body of a reduction that is partitioned must combine by add, mul, max or min")
    kept = [d for d in range(len(shape)) if d not in reduced]
    old = [
        np.broadcast_to(_along(x, dims, len(shape)), _shape_of_step(shape, reduced)) for x, dims in zip(outputs, maps)
    ]
    for step in product(*[range(shape[d]) for d in sorted(reduced)]):
        at = dict(zip(sorted(reduced), step))
        cells = tuple([slice(at[d], at[d] + 1) if d in at else slice(None) for d in range(len(shape))])
        blocks = [_step_of(x, cells) for x in laid]
        with _looping(machine, shape, at):
            found = machine.run_block(block, [*blocks, *old])
        old = [np.broadcast_to(each, _shape_of_step(shape, reduced)) for each in found]
    return [_transposed(np.reshape(each, tuple([shape[d] for d in kept])), kept, dims) for each, dims in zip(old, maps)]


def _shape_of_step(shape: tuple[int, ...], reduced: set[int]) -> tuple[int, ...]:
    return tuple([1 if d in reduced else n for d, n in enumerate(shape)])


def _step_of(x: Any, cells: tuple[slice, ...]) -> Any:
    if not getattr(x, "shape", ()):
        return x
    return x[tuple([slice(None) if n == 1 else each for n, each in zip(x.shape, cells)])]
