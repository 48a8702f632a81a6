"""Extents of results, computed from those of operands; None stands for an extent that a program leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr
from xdsl.ir import Operation

from spmd_grid.dialect.syntax.positions import verify_error

__all__ = ["Shape", "axis_of", "broadcast", "expect", "joined", "list_of", "permuted", "shape_text", "check_same_cells"]

Shape = tuple[int | None, ...]


def shape_text(shape: Shape) -> str:
    """A shape as types write it.

    >>> shape_text((2, None)), shape_text(())
    ('2x?', '0-d')
    """
    return "x".join(["?" if n is None else str(n) for n in shape]) or "0-d"


def expect(operation: Operation, wanted: Shape, found: Shape, what: str = "the result") -> None:
    """Refuse a shape that is another than the wanted one; open extents fit any."""
    differ = [a is not None and b is not None and a != b for a, b in zip(wanted, found)]
    if len(wanted) != len(found) or any(differ):
        raise verify_error(operation, f"{what} must have the shape {shape_text(wanted)}, found {shape_text(found)}")


def list_of(operation: Operation, word: str) -> tuple[int, ...] | None:
    """A list of numbers that an operation has as an attribute; None if it is left out."""
    found: Any = operation.properties.get(word)
    if found is None:
        return None
    if isinstance(found, DenseArrayBase | DenseIntOrFPElementsAttr):
        values = tuple(found.get_values())
        if all([isinstance(n, int) for n in values]):
            return values
    raise verify_error(operation, f"{word} must be a list of integers, found {found}")


def axis_of(operation: Operation, word: str, rank: int) -> int:
    """A dimension that an operation names, which exists."""
    found = operation.properties.get(word)
    axis = found.value.data if isinstance(found, IntegerAttr) else -1
    if not 0 <= axis < rank:
        shown = axis if isinstance(found, IntegerAttr) else found
        raise verify_error(operation, f"{word} {shown} is out of bounds [0, {rank}) of the operand's rank")
    return axis


def broadcast(operation: Operation, shapes: Sequence[Shape]) -> Shape:
    """The shape of operands of one rank, in which extents of 1 grow."""
    if len({len(shape) for shape in shapes}) > 1:
        ranks = [len(shape) for shape in shapes]
        raise verify_error(operation, f"operands must have as many dimensions as one another, found {ranks}")
    result: list[int | None] = []
    for dim, sizes in enumerate(zip(*shapes)):
        known = {n for n in sizes if n is not None and n != 1}
        if len(known) > 1:
            raise verify_error(operation, f"extents {sorted(known)} of dimension {dim} do not fit one another")
        result.append(known.pop() if known else (None if None in sizes else 1))
    return tuple(result)


def permuted(operation: Operation, shape: Shape, order: Sequence[int]) -> Shape:
    """The shape with its dimensions in another order."""
    if sorted(order) != list(range(len(shape))):
        raise verify_error(operation, f"{list(order)} is no order of the {len(shape)} dimensions of the operand")
    return tuple([shape[dim] for dim in order])


def joined(operation: Operation, shapes: Sequence[Shape], axis: int) -> Shape:
    """The shape of operands one after the other."""
    first = shapes[0]
    for shape in shapes[1:]:
        expect(operation, (*first[:axis], None, *first[axis + 1 :]), shape, "every operand")
    sizes = [shape[axis] for shape in shapes]
    total = None if None in sizes else sum([n for n in sizes if n is not None])
    return (*first[:axis], total, *first[axis + 1 :])


def check_same_cells(operation: Operation, before: Shape, after: Shape) -> None:
    """Refuse shapes that differ in the number of their cells."""
    if None in before or None in after:
        return
    counts = [prod([n for n in shape if n is not None]) for shape in (before, after)]
    if counts[0] != counts[1]:
        raise verify_error(
            operation, f"the {counts[0]} cells of {shape_text(before)} are not the {counts[1]} of {shape_text(after)}"
        )
