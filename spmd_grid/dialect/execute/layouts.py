"""Layouts that a text says: tensors of global extents whose encodings are shardings, and the blocks of whole arrays.

A step of the engine's own texts has them as its types, in texts of global types, or as its attributes ``sources`` and
``targets``, beside the types of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Operation

from spmd_grid.dialect.execute.reading import attribute, numbers_of, shape_of, symbol, text_of
from spmd_grid.dialect.syntax.encodings import EncodingAttr, is_encoded
from spmd_grid.errors import ShapeError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reduction_kind import KINDS, identity

__all__ = [
    "Layouts",
    "block_at",
    "block_of",
    "process_coords",
    "encoded_grids",
    "function_types",
    "grid_symbol",
    "has_layouts",
    "layout_of_type",
    "layouts_of",
    "whole_of",
]


class Layouts(NamedTuple):
    """The layouts of the operands and of the results of an operation, and the symbol of their grid."""

    grid: str
    sources: tuple[Layout, ...]
    targets: tuple[Layout, ...]


def has_layouts(op: Operation) -> bool:
    """Whether an operation or a function says of which arrays its blocks are parts."""
    if attribute(op, "sources", "of_types") is not None:
        return True
    return any(is_encoded(x.type) for x in (*op.operands, *op.results))


def grid_symbol(op: Operation) -> str:
    """The symbol of the grid that an operation, or else the function around it, names; "" if none does."""
    at: Operation | None = op
    while at is not None:
        if symbol(at, "grid"):
            return symbol(at, "grid")
        at = at.parent_op()
    return next(iter(encoded_grids(op)), "")


def encoded_grids(op: Operation) -> list[str]:
    """The symbols of the grids that the types of an operation's operands and results name, and of its arguments."""
    values = [*op.operands, *op.results, *[x for region in op.regions for block in region.blocks for x in block.args]]
    encodings = [getattr(x.type, "encoding", None) for x in values]
    named = [each.blocks.data.get("grid") for each in encodings if isinstance(each, EncodingAttr)]
    return [each.data for each in named if isinstance(each, StringAttr)]


def layouts_of(op: Operation, grids: Any) -> Layouts:
    """The layouts of the operands and results of an operation; types without encodings are those of whole arrays.

    ``grids``: has `grid`, which gives the grid of a symbol.  Raises ShapeError and what shardings raise.
    """
    name = grid_symbol(op)
    grid = grids.grid(name).grid
    kinds = attribute(op, "sources"), attribute(op, "targets")
    if kinds[0] is None:
        lists: list[list[Attribute]] = [[x.type for x in op.operands], [x.type for x in op.results]]
    else:
        lists = [list(each) if isinstance(each, ArrayAttr) else [] for each in kinds]

    def named(symbol: str) -> Grid:
        found: Grid = grids.grid(symbol).grid
        return found

    sources, targets = (tuple([layout_of_type(kind, grid, named) for kind in each]) for each in lists)
    return Layouts(name, sources, targets)


def function_types(function: Operation) -> tuple[list[Attribute], list[Attribute]] | None:
    """The global types of a function on blocks of whole arrays: arguments and results; None of others."""
    kinds = attribute(function, "sources"), attribute(function, "targets")
    if isinstance(kinds[0], ArrayAttr) and isinstance(kinds[1], ArrayAttr):
        return list(kinds[0]), list(kinds[1])
    block = function.regions[0].block
    last = block.last_op
    types = [x.type for x in block.args], [x.type for x in last.operands] if last is not None else []
    return types if any(is_encoded(x.type) for op in block.ops for x in (*op.operands, *op.results)) else None


def layout_of_type(kind: Attribute, grid: Grid, named: Callable[[str], Grid] | None = None) -> Layout:
    """The layout that a global type says; without an encoding every device holds the array.

    ``named``: gives the grid of a symbol, of which a type may be on another than ``grid``.
    """
    shape = shape_of(kind)
    whole = tuple([n for n in shape if n is not None])
    if len(whole) < len(shape):
        raise ShapeError(f"type {kind} has extents that are known at run time only; a global type has all of them")
    encoding = getattr(kind, "encoding", None)
    if not isinstance(encoding, EncodingAttr):
        return Layout(Sharding(grid, []), whole)
    lists = [tuple([int(n) for n in each.get_values()]) for each in encoding.axes]
    options: dict[str, Any] = {}
    for word, found in encoding.blocks.data.items():
        options[word] = text_of(found) if isinstance(found, StringAttr) else list(numbers_of(found))
    ranks, name = options.pop("ranks", None), options.pop("grid", None)
    if name is not None and named is not None:
        grid = named(name)
    if ranks is not None:
        grid = Grid(grid.shape, axis_names=grid.axis_names, ranks=ranks)
    if len(lists) > len(whole) and lists[len(whole)]:
        options["partial_axes"] = lists[len(whole)]
    if "partial_axes" in options:
        options["partial_kind"] = encoding.kind.data.value
    return Layout(Sharding(grid, lists[: len(whole)], **options), whole)


def process_coords(grid: Grid, process: int) -> tuple[int, ...]:
    """The coordinates of a process on a grid."""
    device = process if grid.ranks is None else grid.ranks.index(process)
    return grid.multi_index(device)


def block_of(whole: np.ndarray, layout: Layout, process: int) -> np.ndarray:
    """The block that a process holds of a whole array."""
    return block_at(whole, layout, process_coords(layout.sharding.grid, process))


def block_at(whole: np.ndarray, layout: Layout, coords: tuple[int, ...]) -> np.ndarray:
    """The block that a device holds of a whole array.

    Where it is one part of several, the first device has the values, and others what changes none.
    """
    sharding = layout.sharding
    if any(coords[axis] for axis in sharding.partial_axes):
        return np.full(layout.local_shape(coords), identity(KINDS[sharding.partial_kind], whole.dtype), whole.dtype)
    block = np.zeros(layout.local_shape(coords), whole.dtype)
    held = layout.in_domain_local(coords)
    block[held.slices()] = whole[held.shift(layout.local_box(coords).starts).slices()]
    return block


def whole_of(blocks: Mapping[int, Any] | Sequence[Any], layout: Layout) -> np.ndarray:
    """The whole array of the blocks of all processes; parts are combined.  Raises ShapeError."""
    sharding = layout.sharding
    grid, combine = sharding.grid, KINDS[sharding.partial_kind].combine
    parts: dict[tuple[int, ...], np.ndarray] = {}
    for device in range(grid.size):
        coords, process = grid.multi_index(device), grid.process(device)
        block = np.asarray(blocks[process])
        if block.shape != layout.local_shape(coords):
            due = layout.local_shape(coords)
            raise ShapeError(f"the block of device {coords} has shape {block.shape}; it must be {due}")
        part = tuple([coords[axis] for axis in sharding.partial_axes])
        whole = parts.setdefault(part, np.zeros(layout.global_shape, block.dtype))
        whole[layout.core_box(coords).slices()] = block[layout.core_in_local(coords).slices()]
    found, *others = [parts[part] for part in sorted(parts)]
    for each in others:
        found = np.asarray(combine(found, each)).astype(found.dtype)
    return found
