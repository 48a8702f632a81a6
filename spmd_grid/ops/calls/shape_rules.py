"""Rules of the operations for the shapes and dtypes of arrays and results, without data.

The functions take the facts of all members, in member order.  All members call them with the same facts, and hence
raise the same errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from spmd_grid.errors import AxisError, DTypeError, OutputError, ShapeError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.grid.blocks import block_interval
from spmd_grid.grid.box import Box, multi_index
from spmd_grid.typing import Shape

__all__ = [
    "all_to_all_shapes",
    "check_axis",
    "check_extents",
    "check_out",
    "concatenated_shape",
    "cut_box",
    "cut_boxes",
    "dtype_of",
    "equal_shapes",
    "same_dtype",
    "shape_of",
]

Label = Callable[[int], str]


def shape_of(fact: Facts) -> Shape:
    """The shape of a member's array, where every member has one."""
    assert fact.shape is not None
    return fact.shape


def dtype_of(fact: Facts) -> np.dtype:
    """The dtype of a member's array, where every member has one."""
    assert fact.dtype is not None
    return fact.dtype


def check_axis(op: str, what: str, axis: int, ndim: int, member: str) -> None:
    """Refuse a tensor axis that does not exist: 0 <= axis < ndim (a 0-d array has none)."""
    if axis >= ndim:
        has = "has no dimensions" if ndim == 0 else f"has dimensions 0 to {ndim - 1}"
        raise AxisError(f"{op}: {what}={axis}, but the array of {member} {has}")


def same_dtype(op: str, facts: Sequence[Facts], label: Label) -> np.dtype:
    """The dtype that all members share."""
    for i, fact in enumerate(facts):
        if fact.dtype != facts[0].dtype:
            raise DTypeError(
                f"{op}: dtypes differ: {label(0)} has {facts[0].dtype}, {label(i)} has {fact.dtype}; they must be equal"
            )
    return dtype_of(facts[0])


def equal_shapes(op: str, facts: Sequence[Facts], label: Label) -> Shape:
    """The shape that all members share."""
    return _shapes_but(op, facts, None, label)


def concatenated_shape(op: str, facts: Sequence[Facts], axis: int, what: str, label: Label) -> Shape:
    """The shape of all members' arrays concatenated along ``axis``."""
    for i, fact in enumerate(facts):
        check_axis(op, what, axis, len(shape_of(fact)), label(i))
    shape = _shapes_but(op, facts, axis, label)
    return (*shape[:axis], sum(shape_of(fact)[axis] for fact in facts), *shape[axis + 1 :])


def cut_box(shape: Shape, axis: int, sizes: Sequence[int], member: int) -> Box:
    """The block of ``member`` when an array of ``shape`` is cut along ``axis`` by the block rule."""
    start, stop = block_interval(shape[axis], sizes, multi_index(member, sizes))
    return Box(
        tuple(start if d == axis else 0 for d in range(len(shape))),
        tuple(stop if d == axis else n for d, n in enumerate(shape)),
    )


def cut_boxes(op: str, shape: Shape, axis: int, what: str, sizes: Sequence[int], owner: str) -> list[Box]:
    """The block of each member when the array of ``owner``, of ``shape``, is cut along ``axis``."""
    check_axis(op, what, axis, len(shape), owner)
    return [cut_box(shape, axis, sizes, member) for member in range(prod(sizes))]


def all_to_all_shapes(
    op: str, facts: Sequence[Facts], split_axis: int, concat_axis: int, sizes: Sequence[int], label: Label
) -> list[Shape]:
    """The result shape of each member: pieces cut along one axis, joined along another."""
    for i, fact in enumerate(facts):
        check_axis(op, "split_axis", split_axis, len(shape_of(fact)), label(i))
        check_axis(op, "concat_axis", concat_axis, len(shape_of(fact)), label(i))
    _shapes_but(op, facts, concat_axis, label)
    shapes = []
    for member in range(len(facts)):
        pieces = [cut_box(shape_of(fact), split_axis, sizes, member).shape for fact in facts]
        joined = list(pieces[0])
        joined[concat_axis] = sum(piece[concat_axis] for piece in pieces)
        shapes.append(tuple(joined))
    return shapes


def check_extents(op: str, facts: Sequence[Facts], axis: int, extents: tuple[int, ...] | None, label: Label) -> None:
    """Refuse ``extents`` that are not those of the members' arrays."""
    if extents is None:
        return
    for i, (fact, extent) in enumerate(zip(facts, extents, strict=True)):
        if shape_of(fact)[axis] != extent:
            raise ShapeError(
                f"{op}: extents[{i}]={extent}, but the array of {label(i)} has extent {shape_of(fact)[axis]} along"
                f" dimension {axis}"
            )


def check_out(op: str, facts: Sequence[Facts], shapes: Sequence[Shape | None], dtype: np.dtype, label: Label) -> None:
    """Refuse an ``out`` that is not ignored and does not have the result's shape and dtype."""
    for i, (fact, shape) in enumerate(zip(facts, shapes)):
        if fact.out_shape is None or shape is None:
            continue
        if fact.out_shape != shape:
            raise OutputError(f"{op}: out of {label(i)} has shape {fact.out_shape}; the result has shape {shape}")
        if fact.out_dtype != dtype:
            raise OutputError(f"{op}: out of {label(i)} has dtype {fact.out_dtype}; the result has dtype {dtype}")


def _shapes_but(op: str, facts: Sequence[Facts], axis: int | None, label: Label) -> Shape:
    """The shape of the first member; refuse shapes that differ from it in a dimension other than ``axis``."""
    first = shape_of(facts[0])
    for i, fact in enumerate(facts):
        shape = shape_of(fact)
        if shape == first:
            continue
        alike = len(shape) == len(first) and all(a == b for d, (a, b) in enumerate(zip(shape, first)) if d != axis)
        if not alike:
            but = "" if axis is None else f" but for dimension {axis}"
            raise ShapeError(
                f"{op}: shapes differ: {label(0)} has {first}, {label(i)} has {shape}; they must be equal{but}"
            )
    return first
