"""The options that describe layouts, for the commands that plan and draw."""

from __future__ import annotations

import argparse
import ast
from typing import Any

import numpy as np

from spmd_grid.cli.option_types import given
from spmd_grid.errors import DTypeError, GridError, ShapeError, ShardingError, SpmdError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.numerals import shown, whole_number
from spmd_grid.python_text import expression_of

__all__ = [
    "add_layout_options",
    "dtype_of",
    "numbers",
    "parse_list",
    "source_grid",
    "source_layout",
    "target_layout",
]

# Longer input is a mistake: it is refused before it uses up the memory.
_MAX_CHARACTERS, _MAX_RANKS = 1 << 20, 1 << 22


def add_layout_options(parser: argparse.ArgumentParser, target_required: bool, array_required: bool = True) -> None:
    """Add the options that describe a source and a target layout; without an array, only the grid is required."""
    source = parser.add_argument_group("the layout" if not target_required else "from")
    source.add_argument("--grid", required=True, metavar="SHAPE", help="the grid of devices, such as 2x3")
    source.add_argument("--shape", required=array_required, metavar="SHAPE", help="the global array, such as 4x6")
    source.add_argument(
        "--sharding",
        "--from",
        required=array_required,
        metavar="AXES",
        type=given,
        help="per tensor dimension the grid axes that split it, such as '[[0],[1]]'; names where axes have names",
    )
    source.add_argument("--axis-names", metavar="NAMES", type=given, help="names of the grid's axes, such as x,y")
    source.add_argument(
        "--ranks", "--from-ranks", metavar="LIST", type=given, help="the process of each device, such as 0-3,8,9"
    )
    _add_sharding_options(source, "", "--from-")
    target = parser.add_argument_group(
        "to", "grid, block rule and partial kind default to those above; nothing else is inherited"
    )
    target.add_argument(
        "--to", required=target_required and array_required, metavar="AXES", type=given, help="the target sharding"
    )
    target.add_argument("--to-grid", metavar="SHAPE", type=given, help="another grid")
    target.add_argument("--to-axis-names", metavar="NAMES", type=given, help="names of its axes")
    target.add_argument("--to-ranks", metavar="LIST", type=given, help="its processes")
    _add_sharding_options(target, "--to-")
    parser.add_argument("--dtype", default="float64", type=given, help="dtype of the array (float64)")


def _add_sharding_options(group: argparse._ArgumentGroup, *prefixes: str) -> None:
    """Add the options that describe a sharding besides its axes, each under all ``prefixes``; "" stands for "--"."""

    def add(name: str, metavar: str, text: str) -> None:
        flags = [(prefix or "--") + name for prefix in prefixes]
        group.add_argument(*flags, type=given, metavar=metavar, help=text)

    add("blocks", "RULE", "ceil or balanced")
    add("halo", "SIZES", "low,high per sharded dimension, such as 1,1,0,2")
    add("offsets", "LISTS", "starts of the shards and the end per sharded dimension: '[[0,2,6],[0,3,4]]'")
    add("partial", "AXES", "grid axes along which values are partial")
    add("partial-kind", "KIND", "the reduction that combines them (sum)")


def source_grid(options: argparse.Namespace) -> Grid:
    """The source's grid that options describe.  Raises SpmdError."""
    return _grid(options.grid, options.axis_names, options.ranks, "--")


def source_layout(options: argparse.Namespace) -> Layout:
    """The source layout that options describe.  Raises SpmdError."""
    return _layout(options, source_grid(options), options.sharding, "--sharding", "")


def target_layout(options: argparse.Namespace) -> Layout:
    """The target layout that options describe.  Raises SpmdError.

    Grid, block rule and partial kind default to the source's.
    """
    grid = source_layout(options).grid
    if options.to_grid or options.to_ranks or options.to_axis_names:
        shape = options.to_grid or options.grid
        names = options.to_axis_names or (None if options.to_grid else options.axis_names)
        grid = _grid(shape, names, options.to_ranks or (None if options.to_grid else options.ranks), "--to-")
    return _layout(options, grid, options.to, "--to", "to_")


def _grid(shape: str, names: str | None, ranks: str | None, prefix: str) -> Grid:
    sizes = numbers(shape, f"{prefix}grid", GridError, "sizes such as 2x3")
    processes = None if ranks is None else _ranges(ranks, f"{prefix}ranks")
    return Grid(sizes, None if names is None else [name.strip() for name in names.split(",")], processes)


def _layout(options: argparse.Namespace, grid: Grid, axes: str, name: str, prefix: str) -> Layout:
    """The layout with sharding ``axes``, given by the option ``name``; its other options begin with ``prefix``."""

    def value(option: str) -> str | None:
        return getattr(options, prefix + option)

    def list_value(option: str) -> list[Any] | None:
        text = value(option)
        flag = "--" + (prefix + option).replace("_", "-")
        return None if text is None else parse_list(text, flag, "1,1", bare=True)

    # Offsets take the place of a block rule, so none is inherited beside them.
    default_blocks = options.blocks if value("offsets") is None else None
    sharding = Sharding(
        grid,
        parse_list(axes, name),
        blocks=value("blocks") or default_blocks or "ceil",
        halo_sizes=list_value("halo"),
        sharded_dims_offsets=list_value("offsets"),
        partial_axes=list_value("partial") or (),
        partial_kind=value("partial_kind") or options.partial_kind or "sum",
    )
    return Layout(sharding, numbers(options.shape, "--shape", ShapeError, "extents such as 4x6"))


def dtype_of(options: argparse.Namespace) -> np.dtype:
    """The dtype that options name.  Raises DTypeError."""
    try:
        return np.dtype(options.dtype)
    except (TypeError, ValueError, SyntaxError):
        raise DTypeError(f"--dtype is {shown(options.dtype)}; it must be a dtype of numpy, such as float32") from None


def numbers(text: str, name: str, error: type[SpmdError], required: str) -> tuple[int, ...]:
    """``4x6``, ``4,6`` or ``(4, 6)`` as a tuple of numbers, which is empty for an empty text.  Raises ``error``."""
    inside = text.strip().strip("()[]").strip()
    parts = inside.removesuffix(",").split("x" if "x" in inside else ",") if inside else []
    try:
        return tuple([whole_number(part) for part in parts])
    except ValueError:
        raise error(f"{name} is {shown(text)}; it must be {required}") from None


def _ranges(text: str, name: str) -> tuple[int, ...]:
    """``0-3,8`` as the numbers 0, 1, 2, 3, 8."""
    ranks: list[int] = []
    try:
        for part in text.strip().strip("()[]").split(","):
            first, _, last = part.partition("-")
            run = range(whole_number(first), whole_number(last or first) + 1)
            if len(ranks) + len(run) > _MAX_RANKS:
                raise ValueError(part)
            ranks += run
    except ValueError:
        raise GridError(f"{name} is {shown(text)}; it must list processes, such as 0-3,8,9") from None
    return tuple(ranks)


def parse_list(text: str, name: str, example: str = "[[0],[1]]", bare: bool = False) -> list[Any]:
    """``[[0],[x, 'y z']]`` as lists of numbers and names, where a bare word is a name.

    ``bare``: whether the outermost brackets may be left out.  Raises ShardingError.

    >>> parse_list("[[0],[x, 'y z'],[]]", "--to"), parse_list("1,x", "--partial", bare=True)
    ([[0], ['x', 'y z'], []], [1, 'x'])
    """
    inside = text.strip()
    if bare and inside[:1] != "[":
        inside = f"[{inside}]"
    try:
        if len(inside) > _MAX_CHARACTERS:
            raise ValueError
        found = _value(expression_of(inside))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        found = None
    if not isinstance(found, list):
        raise ShardingError(f"{name} is {shown(text)}; it must list numbers or names in brackets, such as {example}")
    return found


def _value(node: ast.expr) -> Any:
    """The lists, names and numbers of a parsed expression.  Raises ValueError where it holds anything else."""
    match node:
        case ast.List(elts=entries) | ast.Tuple(elts=entries):
            return [_value(entry) for entry in entries]
        case ast.Name(id=name):
            return name
        case ast.Constant(value=int() | str() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
    raise ValueError(node)
