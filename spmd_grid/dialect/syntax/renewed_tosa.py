"""Older forms of tosa in today's: zero points, shifts and shapes as operands, and today's names of attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    ContainerType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntAttr,
    IntegerType,
    TensorType,
    i8,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from spmd_grid.dialect.syntax.other_dialects.tosa import OPERATIONS, ShapeType, TosaOp, propagates_nan

__all__ = ["renew_tosa"]

_POINTED = {"tosa.matmul": 2, "tosa.negate": 1}  # and how many operands there are beside the zero points


def renew_tosa(op: TosaOp) -> None:
    """Give an operation the operands and attributes that it has today."""
    if propagates_nan(op.properties.get("nan_mode")):
        del op.properties["nan_mode"]
    if "value" in op.properties:
        op.properties["values"] = op.properties.pop("value")
    count = _POINTED.get(op.name, 0)
    if count and len(op.operands) == count:
        points = [*op.operands, op.results[0]] if count == 1 else list(op.operands)
        _add(op, [_zero(op, x.type) for x in points])
    elif op.name == "tosa.mul" and len(op.operands) == 2:
        _add(op, [_zero(op, i8)])
    elif op.name == "tosa.reshape" and len(op.operands) == 1:
        sizes = op.properties.pop("new_shape", None)
        if isinstance(sizes, DenseArrayBase):
            _add(op, [_shape(op, [int(n) for n in sizes.get_values()])])
        elif sizes is not None:
            op.properties["new_shape"] = sizes
    elif op.name == "tosa.transpose" and len(op.operands) == 2 and "perms" not in op.properties:
        _take_order(op)


def _add(op: Operation, more: Sequence[SSAValue | None]) -> None:
    if None not in more:
        op.operands = [*op.operands, *[x for x in more if x is not None]]


def _before(op: Operation, name: str, values: Attribute, kind: Attribute) -> SSAValue | None:
    block = op.parent
    if block is None:
        return None
    made = OPERATIONS[name].create(properties={"values": values}, result_types=[kind])
    made.location = op.location
    block.insert_op_before(made, op)
    return made.results[0]


def _zero(op: Operation, like: Attribute) -> SSAValue | None:
    """An array of one 0, of the elements of a type."""
    element: Any = like.get_element_type() if isinstance(like, ContainerType) else like
    kind = TensorType(element, [1])
    if not isinstance(element, IntegerType) and not hasattr(element, "bitwidth"):
        return None
    zero = [0] if isinstance(element, IntegerType) else [0.0]
    return _before(op, "tosa.const", DenseIntOrFPElementsAttr.from_list(kind, zero), kind)


def _shape(op: Operation, sizes: Sequence[int]) -> SSAValue | None:
    values = DenseIntOrFPElementsAttr.from_list(TensorType(IndexType(), [len(sizes)]), list(sizes))
    return _before(op, "tosa.const_shape", values, ShapeType(IntAttr(len(sizes))))


def _take_order(op: Operation) -> None:
    """The order of dimensions as an attribute, where it was a constant operand."""
    order = op.operands[1].owner
    values = order.properties.get("values", order.properties.get("value")) if isinstance(order, Operation) else None
    if isinstance(values, DenseIntOrFPElementsAttr):
        op.operands = op.operands[:1]
        op.properties["perms"] = DenseArrayBase.from_list(i32, [int(n) for n in values.get_values()])
