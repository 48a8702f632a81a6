"""Manual computations at once: on the blocks of another body that is running, and on sharded arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.compute.splits import is_sharded
from spmd_grid.errors import AxisError, DTypeError, GridError, ShardingError
from spmd_grid.formatting import told_apart
from spmd_grid.grid.layout import Layout
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.ops.all_slice import all_slice
from spmd_grid.program.manual.lowering import Body, run_body
from spmd_grid.program.manual.terms import Side, Terms

__all__ = ["at_once", "check_nesting", "gathered", "in_body"]


def check_nesting(terms: Terms, grid: Any, outer: tuple[int, ...]) -> None:
    """Refuse nested manual computations without manual axes of their own, or with halos."""
    if terms.grid != grid:
        inner, around = told_apart(terms.grid, grid)
        raise GridError(f"manual: {terms.name} is on {inner}, inside of a body on {around}; both must be one grid")
    for side in terms.ins:
        if side.along.halo_sizes:
            raise ShardingError(f"manual: {side.name} of {terms.name} has halos, which blocks of another body do not")
    shared = [axis for axis in terms.manual_axes if axis in outer]
    used = {
        axis
        for side in (*terms.ins, *terms.outs)
        for axis in (*side.sharding.partial_axes, *[axis for cut in side.sharding.split_axes for axis in cut])
    }
    shared += [axis for axis in outer if axis in used and axis not in shared]
    if shared:
        raise AxisError(
            f"manual: {terms.name} uses axes {sorted(shared)}, which are manual in the body around it, of axes"
            f" {list(outer)}; nested computations have manual axes of their own"
        )


def in_body(terms: Terms, xs: Sequence[Any], outer: Body) -> list[Any]:
    """The results inside of another body that is running.  Collective over the inner manual axes."""
    check_nesting(terms, outer.grid.grid, outer.axes)
    blocks = []
    for x, side in zip(xs, terms.ins):
        block = np.asarray(x)
        side.block_shape(block.shape)
        for d, axes in enumerate(side.along.split_axes):
            block = all_slice(block, outer.grid, axes, d) if axes else block
        blocks.append(block)
    found = run_body(terms, blocks, outer.grid)
    return [gathered(side, block, outer.grid) for side, block in zip(terms.outs, found)]


def gathered(side: Side, block: Any, grid: Any) -> Any:
    """The array whose blocks along manual axes are these: minor axes are gathered first."""
    partial_axes = side.along.partial_axes
    if partial_axes:
        block = all_reduce(block, grid, partial_axes, side.along.partial_kind)
    for d, axes in enumerate(side.along.split_axes):
        block = all_gather(block, grid, axes, d) if axes else block
    return block


def at_once(terms: Terms, xs: Sequence[Any]) -> list[Any]:
    """The results on ShardedArrays.  Collective over the grid."""
    for number, x in enumerate(xs):
        if not is_sharded(x):
            raise DTypeError(
                f"manual: array {number} is {type(x).__name__}; it must be a ShardedArray, or an array of a traced"
                " function or of a body"
            )
        if x.grid.grid != terms.grid:
            one, other = told_apart(x.grid.grid, terms.grid)
            raise GridError(f"manual: array {number} is on {one}; the shardings are on {other}")
    grid = xs[0].grid
    for x, side in zip(xs, terms.ins):
        side.block_shape(x.shape)
    blocks = [(x if x.sharding == side.along else x.reshard(side.along)).local for x, side in zip(xs, terms.ins)]
    made = []
    for block, side in zip(run_body(terms, blocks, grid), terms.outs, strict=True):
        layout = Layout(side.along, side.global_shape(block.shape))
        copy = np.array(block, order="C")  # the body may return its own block, or a part of it
        made.append(ShardedArray(copy, layout, grid))
    closed = [replace(side.sharding, open_dims=()) for side in terms.outs]
    return [x if x.sharding == wanted else x.reshard(wanted) for x, wanted in zip(made, closed)]
