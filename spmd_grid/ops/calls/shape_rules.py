"""What each operation demands of its members' arrays and what shapes come out: rules without data.

Every function takes the facts of all members, in member order, and gives the result shape of each member (None where
it has no result).  All members call it with the same facts, hence all raise alike.
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
    "equal_shapes",
    "same_dtype",
]

Label = Callable[[int], str]


def check_axis(op: str, what: str, axis: int, ndim: int, who: str) -> None:
    """The tensor axis must exist: 0 <= axis < ndim (a 0-d array has none)."""
    if axis >= ndim:
        has = "has no dimensions" if ndim == 0 else f"has dimensions 0 to {ndim - 1}"
        raise AxisError(f"{op}: {what}={axis}, but the array of {who} {has}")


def same_dtype(op: str, facts: Sequence[Facts], label: Label) -> np.dtype:
    """The dtype that all members share."""
    for i, fact in enumerate(facts):
        if fact.dtype != facts[0].dtype:
            raise DTypeError(
                f"{op}: dtypes differ: {label(0)} has {facts[0].dtype}, {label(i)} has {fact.dtype}; they must be equal"
            )
    return facts[0].dtype


def equal_shapes(op: str, facts: Sequence[Facts], label: Label) -> Shape:
    """The shape that all members share."""
    return _shapes_but(op, facts, None, label)


def concatenated_shape(op: str, facts: Sequence[Facts], axis: int, what: str, label: Label) -> Shape:
    """The shape of all members' arrays one after the other along ``axis``."""
    for i, fact in enumerate(facts):
        check_axis(op, what, axis, len(fact.shape), label(i))
    shape = _shapes_but(op, facts, axis, label)
    return (*shape[:axis], sum(fact.shape[axis] for fact in facts), *shape[axis + 1 :])


def cut_box(shape: Shape, axis: int, sizes: Sequence[int], member: int) -> Box:
    """The block of member ``member`` when an array of ``shape`` is cut along ``axis`` by the block rule."""
    start, stop = block_interval(shape[axis], sizes, multi_index(member, sizes))
    return Box(
        tuple(start if d == axis else 0 for d in range(len(shape))),
        tuple(stop if d == axis else n for d, n in enumerate(shape)),
    )


def cut_boxes(op: str, shape: Shape, axis: int, what: str, sizes: Sequence[int], who: str) -> list[Box]:
    """Every member's block when ``shape`` is cut along ``axis``."""
    check_axis(op, what, axis, len(shape), who)
    return [cut_box(shape, axis, sizes, member) for member in range(prod(sizes))]


def all_to_all_shapes(
    op: str, facts: Sequence[Facts], split_axis: int, concat_axis: int, sizes: Sequence[int], label: Label
) -> list[Shape]:
    """The result shape of each member: pieces cut along one axis, put together along another."""
    for i, fact in enumerate(facts):
        check_axis(op, "split_axis", split_axis, len(fact.shape), label(i))
        check_axis(op, "concat_axis", concat_axis, len(fact.shape), label(i))
    _shapes_but(op, facts, concat_axis, label)
    shapes = []
    for member in range(len(facts)):
        pieces = [cut_box(fact.shape, split_axis, sizes, member).shape for fact in facts]
        joined = list(pieces[0])
        joined[concat_axis] = sum(piece[concat_axis] for piece in pieces)
        shapes.append(tuple(joined))
    return shapes


def check_extents(op: str, facts: Sequence[Facts], axis: int, extents: tuple[int, ...] | None, label: Label) -> None:
    """The extents a caller foretold must be the true ones."""
    if extents is None:
        return
    for i, (fact, extent) in enumerate(zip(facts, extents, strict=True)):
        if fact.shape[axis] != extent:
            raise ShapeError(
                f"{op}: extents[{i}]={extent}, but the array of {label(i)} has extent {fact.shape[axis]} along"
                f" dimension {axis}"
            )


def check_out(op: str, facts: Sequence[Facts], shapes: Sequence[Shape | None], dtype: np.dtype, label: Label) -> None:
    """Every ``out`` that was given, and is not ignored, must have the result's shape and dtype."""
    for i, (fact, shape) in enumerate(zip(facts, shapes)):
        if fact.out_shape is None or shape is None:
            continue
        if fact.out_shape != shape:
            raise OutputError(f"{op}: out of {label(i)} has shape {fact.out_shape}; the result has shape {shape}")
        if fact.out_dtype != dtype:
            raise OutputError(f"{op}: out of {label(i)} has dtype {fact.out_dtype}; the result has dtype {dtype}")


def _shapes_but(op: str, facts: Sequence[Facts], axis: int | None, label: Label) -> Shape:
    """The shape that all members share but for dimension ``axis``."""
    first = facts[0].shape
    for i, fact in enumerate(facts):
        shape = fact.shape
        if shape == first:
            continue
        alike = len(shape) == len(first) and all(a == b for d, (a, b) in enumerate(zip(shape, first)) if d != axis)
        if not alike:
            but = "" if axis is None else f" but for dimension {axis}"
            raise ShapeError(
                f"{op}: shapes differ: {label(0)} has {first}, {label(i)} has {shape}; they must be equal{but}"
            )
    return first
