"""linalg: bodies over loops, computed in whole arrays.

A body is computed once, on arrays that are laid out along all loops; reductions whose body combines with the old value
by one operation are numpy's.  Others go through the steps of the reduction in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Block, BlockArgument, Operation

from spmd_grid.dialect.execute.operations.linalg.named import (
    COMBINERS,
    combined_with,
    given,
    loops_of,
    multiplied,
    parts_of,
    subscripts_of,
)
from spmd_grid.dialect.execute.operations.scalars import cast
from spmd_grid.dialect.execute.reading import attribute, dtype_of, integer, integers, is_shaped, name_of, text_of
from spmd_grid.dialect.execute.table import Runner, handles
from spmd_grid.dialect.execute.values import one_number, repeated
from spmd_grid.errors import ShapeError

__all__ = ["looping"]


@handles("linalg.reduce")
def _reduce(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    n = len(operands) // 2
    inputs, inits = operands[:n], operands[n:]
    dims = integers(op, "dimensions")
    loops = inputs[0].ndim
    kept = [d for d in range(loops) if d not in dims]
    maps = [tuple(range(loops))] * n + [tuple(kept)] * n
    return _generic_of(runner, op, inputs, inits, maps, set(dims), inputs[0].shape)


@handles("linalg.generic")
def _generic(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    maps = loops_of(op)
    n_outputs = len(op.results) or sum(is_shaped(x.type) for x in op.operands[_n_inputs(op) :])
    inputs, outputs = parts_of(op, operands, n_outputs)
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
    return _generic_of(runner, op, inputs, outputs, maps, reduced, shape)


def _n_inputs(op: Operation) -> int:
    sizes = integers(op, "operandSegmentSizes")
    return sizes[0] if sizes else len(op.operands) - 1


def _generic_of(
    runner: Runner,
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
        with looping(runner, shape):
            found = runner.run_block(block, runner.thin([*laid, *old])[: len(block.args)])
        results = [_gathered(each, dims, shape, x.dtype) for each, dims, x in zip(found, maps[len(inputs) :], outputs)]
        return given(op, outputs, results)
    combiners = [_combiner(block, len(inputs) + number, number) for number in range(len(outputs))]
    if None in combiners:
        return given(op, outputs, _in_order(runner, block, laid, outputs, maps[len(inputs) :], reduced, shape))
    results = []
    for number, (combiner, x) in enumerate(zip(combiners, outputs)):
        assert combiner is not None  # of a list without None
        dims = maps[len(inputs) + number]
        subscripts = _contraction(block, combiner, inputs, maps, number)
        if subscripts is not None:
            first, second = (cast(each, x.dtype) for each in inputs)
            results.append(
                combined_with(name_of(combiner), cast(multiplied(subscripts, first, second), x.dtype), (), x)
            )
            continue
        with looping(runner, shape):
            term = _term(runner, block, combiner, laid)
        whole = np.broadcast_to(term, shape) if term.shape != shape else term
        kept = sorted(d for d in dims if d is not None)
        part = combined_with(name_of(combiner), whole, sorted(reduced), _sorted_dims(x, dims))
        results.append(_transposed(part, kept, dims))
    return given(op, outputs, results)


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
    if not isinstance(found, Operation) or name_of(found) not in COMBINERS or len(list(old.uses)) != 1:
        return None
    return found if old in found.operands else None


def _contraction(
    block: Block, combiner: Operation, inputs: Sequence[Any], maps: Sequence[Sequence[int | None]], number: int
) -> str | None:
    """The subscripts of a sum of products of two inputs, which numpy computes without a product of all loops."""
    if len(inputs) != 2 or COMBINERS[name_of(combiner)][0] is not np.sum or any(None in dims for dims in maps):
        return None
    term = next((x for x in combiner.operands if not isinstance(x, BlockArgument)), None)
    owner = None if term is None else term.owner
    if not isinstance(owner, Operation) or name_of(owner) not in ("arith.mulf", "arith.muli"):
        return None
    if {id(x) for x in owner.operands} != {id(x) for x in block.args[:2]}:
        return None
    return subscripts_of([maps[0], maps[1], maps[len(inputs) + number]])


def _term(runner: Runner, block: Block, combiner: Operation, laid: Sequence[Any]) -> Any:
    """The term that an operation combines with the old value."""
    inputs = len(laid)
    old = next(x for x in combiner.operands if isinstance(x, BlockArgument) and x.index >= inputs)
    runner.run_block(block, [*laid, *[_stand_in(x) for x in block.args[inputs:]]], combiner)
    other = combiner.operands[1] if combiner.operands[0] is old else combiner.operands[0]
    return runner.value(other)


def _stand_in(x: BlockArgument) -> Any:
    return dtype_of(x.type).type(0)


@contextmanager
def looping(runner: Runner, shape: tuple[int, ...], at: Mapping[int, int] | None = None) -> Iterator[None]:
    """Let ``linalg.index`` know the loops; ``at``: the steps of those that go on one after the other."""
    runner.loops.append((shape, at or {}))
    try:
        yield
    finally:
        runner.loops.pop()


@handles("linalg.index")
def _index(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    if not runner.loops:
        raise ShapeError("linalg.index stands outside of a structured operation")
    shape, at = runner.loops[-1]
    d = integer(op, "dim")
    if d in at:
        return np.int64(at[d])
    return np.arange(shape[d]).reshape(tuple([n if i == d else 1 for i, n in enumerate(shape)]))


def _in_order(
    runner: Runner,
    block: Block,
    laid: Sequence[Any],
    outputs: Sequence[Any],
    maps: Sequence[Sequence[int | None]],
    reduced: set[int],
    shape: tuple[int, ...],
) -> list[Any]:
    """The results of a body that combines in its own way: the steps of the reduction in order."""
    if runner.is_tracing:
        raise ShapeError("the body of a reduction that is partitioned must combine by add, mul, max or min")
    kept = [d for d in range(len(shape)) if d not in reduced]
    old = [
        np.broadcast_to(_along(x, dims, len(shape)), _shape_of_step(shape, reduced)) for x, dims in zip(outputs, maps)
    ]
    for step in product(*[range(shape[d]) for d in sorted(reduced)]):
        at = dict(zip(sorted(reduced), step))
        cells = tuple([slice(at[d], at[d] + 1) if d in at else slice(None) for d in range(len(shape))])
        blocks = [_step_of(x, cells) for x in laid]
        with looping(runner, shape, at):
            found = runner.run_block(block, [*blocks, *old])
        old = [np.broadcast_to(each, _shape_of_step(shape, reduced)) for each in found]
    return [_transposed(np.reshape(each, tuple([shape[d] for d in kept])), kept, dims) for each, dims in zip(old, maps)]


def _shape_of_step(shape: tuple[int, ...], reduced: set[int]) -> tuple[int, ...]:
    return tuple([1 if d in reduced else n for d, n in enumerate(shape)])


def _step_of(x: Any, cells: tuple[slice, ...]) -> Any:
    if not getattr(x, "shape", ()):
        return x
    return x[tuple([slice(None) if n == 1 else each for n, each in zip(x.shape, cells)])]
