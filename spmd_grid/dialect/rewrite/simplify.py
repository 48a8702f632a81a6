"""The dialect's own simplifications of collectives, but for the one that changes what programs mean.

Canonical forms are those of ``mlir/lib/Dialect/Shard/IR/ShardOps.cpp``, the merges of reductions those of its pass
``shard-simplify``.  Left out is ``all_gather(all_slice(x)) -> x``: it is right only where all devices of a group hold
the same ``x``, which a program does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import I64, BytesAttr, DenseArrayBase, IndexType, ModuleOp, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from spmd_grid.dialect.syntax.directives import numbers
from spmd_grid.dialect.syntax.shard import collectives as ops
from spmd_grid.dialect.syntax.shard.shardings import GridOp, GridShapeOp, ShardingOp
from spmd_grid.dialect.verify.grids import Grids
from spmd_grid.dialect.verify.shardings import offsets_by_dim

__all__ = ["simplify"]

_NO_NUMBERS = DenseArrayBase[I64](i64, BytesAttr(b""))
# Operation of two values: the reduction that it may change places with.
_MERGES = {
    **dict.fromkeys(("arith.addf", "arith.addi"), "sum"),
    **dict.fromkeys(("arith.minimumf", "arith.minsi", "arith.minui"), "min"),
    **dict.fromkeys(("arith.maximumf", "arith.maxsi", "arith.maxui"), "max"),
}


def simplify(module: ModuleOp) -> None:
    """Rewrite a verified module in place until no rule applies.  Sums are re-associated.  Local."""
    grids = Grids([each for each in module.walk() if isinstance(each, GridOp)])
    while any([_apply(each, grids) for each in list(module.walk())]):
        pass


def _apply(operation: Operation, grids: Grids) -> bool:
    """Apply the first rule that fits to an operation that is still there."""
    return operation.parent is not None and any(rule(operation, grids) for rule in _RULES)


def _alone(operation: Operation, grids: Grids) -> bool:
    """A collective of one device gives its operand."""
    if not isinstance(operation, ops.CollectiveOp) or isinstance(operation, ops.ShiftOp) or operation.axes:
        return False
    if operation.operands[0].type != operation.results[0].type:
        return False
    return _replace(operation, [], [operation.operands[0]])


def _replace(operation: Operation, new: Sequence[Operation], values: Sequence[SSAValue]) -> bool:
    for each in new:
        each.location = operation.location
    Rewriter.replace_op(operation, list(new), list(values))
    return True


def _plain_sharding(operation: Operation, grids: Grids) -> bool:
    """Halos that are all 0, and offsets of equal blocks, are those that a sharding has without them."""
    if not isinstance(operation, ShardingOp):
        return False
    if operation.halos and all([halo == 0 for halo in operation.halos]):
        operation.properties["static_halo_sizes"] = _NO_NUMBERS
        return True
    known = numbers(operation.static_sharded_dims_offsets)
    if not known or operation.dynamic_sharded_dims_offsets:
        return False
    for _, offsets in offsets_by_dim(operation, grids.sizes(operation, operation.grid_name)):
        static = [n for n in offsets if isinstance(n, int)]
        if len({high - low for low, high in zip(static, static[1:])}) != 1:
            return False
    operation.properties["static_sharded_dims_offsets"] = _NO_NUMBERS
    return True


def _known_sizes(operation: Operation, grids: Grids) -> bool:
    """Sizes of a grid that the program says are constants."""
    if not isinstance(operation, GridShapeOp):
        return False
    sizes = grids.sizes(operation, operation.grid_name)
    axes = tuple(operation.axes.get_values()) or range(len(sizes))
    changed = False
    for result, axis in zip(operation.results, axes):
        size = sizes[axis]
        if size is None or result.first_use is None:
            continue
        constant = arith.ConstantOp.from_int_and_width(size, IndexType())
        constant.location = operation.location
        block = operation.parent
        if block is not None:
            block.insert_op_before(constant, operation)
            result.replace_all_uses_with(constant.result)
            changed = True
    if all([result.first_use is None for result in operation.results]):
        operation.detach()
        operation.erase()
        return True
    return changed


def _cut_of_gathered(operation: Operation, grids: Grids) -> bool:
    """The own part of what was gathered is what was there before."""
    if not isinstance(operation, ops.AllSliceOp):
        return False
    gathered = operation.input.owner
    if not isinstance(gathered, ops.AllGatherOp) or not _same_group(operation, gathered):
        return False
    if operation.slice_axis != gathered.gather_axis or operation.result.type != gathered.input.type:
        return False
    _replace(operation, [], [gathered.input])
    if gathered.result.first_use is None:
        gathered.detach()
        gathered.erase()
    return True


def _cut_of_reduced(operation: Operation, grids: Grids) -> bool:
    """A reduction of which each device needs a part is a reduce_scatter."""
    if not isinstance(operation, ops.AllSliceOp):
        return False
    reduced = operation.input.owner
    if not isinstance(reduced, ops.AllReduceOp) or not _same_group(operation, reduced) or _uses(reduced) != 1:
        return False
    properties = {**reduced.properties, "scatter_dim": operation.slice_axis}
    scatter = ops.ReduceScatterOp.create(
        operands=[reduced.input], result_types=[operation.result.type], properties=properties
    )
    _replace(operation, [scatter], [scatter.result])
    reduced.detach()
    reduced.erase()
    return True


def _merged(operation: Operation, grids: Grids) -> bool:
    """One reduction of a sum instead of a sum of two reductions; so with minima and maxima."""
    kind = _MERGES.get(operation.name)
    if kind is None:
        return False
    first, second = [x.owner for x in operation.operands]
    if not isinstance(first, ops.AllReduceOp) or not isinstance(second, ops.AllReduceOp) or first is second:
        return False
    same = _same_group(first, second) and first.reduction == second.reduction and first.reduction.data.value == kind
    if not same or _uses(first) != 1 or _uses(second) != 1:
        return False
    kinds = {first.input.type, second.input.type, first.result.type, second.result.type}
    if len(kinds) != 1:
        return False
    inner = type(operation).create(
        operands=[first.input, second.input],
        result_types=[operation.results[0].type],
        properties=operation.properties,
        attributes=operation.attributes,
    )
    outer = ops.AllReduceOp.create(
        operands=list(inner.results), result_types=[operation.results[0].type], properties=first.properties
    )
    _replace(operation, [inner, outer], [outer.result])
    for each in (first, second):
        each.detach()
        each.erase()
    return True


def _same_group(first: ops.CollectiveOp, second: ops.CollectiveOp) -> bool:
    return first.grid_name == second.grid_name and first.axes == second.axes


def _uses(operation: Operation) -> int:
    return len(list(operation.results[0].uses))


_RULES: tuple[Callable[[Operation, Grids], bool], ...] = (
    _alone,
    _plain_sharding,
    _known_sizes,
    _cut_of_gathered,
    _cut_of_reduced,
    _merged,
)
