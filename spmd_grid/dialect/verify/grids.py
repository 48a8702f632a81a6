"""Rules on grids, and on the lists of grid axes that operations name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.ir import Operation, SSAValue

from spmd_grid.dialect.syntax.positions import verify_error
from spmd_grid.dialect.syntax.shard.shardings import (
    GridOp,
    GridShapeOp,
    NeighborsLinearIndicesOp,
    ProcessLinearIndexOp,
    ProcessMultiIndexOp,
)

__all__ = ["Grids", "Sizes", "check_axes", "check_grid_op", "check_grid_user", "check_markers", "known_group_size"]

Sizes = tuple[int | None, ...]  # devices per axis; None where the program leaves it open


class Grids:
    """The grids of a module by name."""

    def __init__(self, operations: Sequence[GridOp]):
        self._sizes: Mapping[str, Sizes] = {each.sym_name.data: each.sizes for each in operations}

    def sizes(self, operation: Operation, name: str) -> Sizes:
        """The grid that an operation names.  DialectVerifyError if there is none."""
        found = self._sizes.get(name)
        if found is None:
            known = ", ".join([f"@{each}" for each in self._sizes]) or "none"
            raise verify_error(operation, f"the grid @{name} is not defined; defined are: {known}")
        return found


def check_grid_op(operation: GridOp) -> None:
    """A grid stands in a module, and has an axis, and at least one device on each."""
    if not isinstance(operation.parent_op(), ModuleOp):
        raise verify_error(operation, "a grid stands in a module, and not inside of a function")
    if not operation.sizes:
        raise verify_error(operation, "the rank of a grid must be positive, found 0")
    for axis, size in enumerate(operation.sizes):
        if size is not None and size < 1:
            raise verify_error(operation, f"axis {axis} has {size} devices; every axis needs 1 or more")


def check_axes(operation: Operation, axes: Sequence[int], sizes: Sizes) -> None:
    """Axes are different, and axes of the grid."""
    for n, axis in enumerate(axes):
        if axis in axes[:n]:
            raise verify_error(operation, f"grid axis {axis} is duplicated in {list(axes)}")
    for axis in axes:
        if axis < 0:
            raise verify_error(operation, f"grid axis {axis} is negative; axes count from 0")
        if axis >= len(sizes):
            raise verify_error(operation, f"grid axis {axis} is out of bounds [0, {len(sizes)}) of the grid's rank")


def known_group_size(axes: Sequence[int], sizes: Sizes) -> int | None:
    """Devices of a group; None if an axis is left open.

    >>> known_group_size([0, 2], (2, 3, 4)), known_group_size([], (2,)), known_group_size([1], (2, None))
    (8, 1, None)
    """
    known = [sizes[axis] for axis in axes]
    return None if None in known else prod([n for n in known if n is not None])


def check_markers(operation: Operation, what: str, numbers: Sequence[int], values: Sequence[SSAValue]) -> None:
    """A mixed list has one value of the program for each of its markers."""
    markers = numbers.count(DYNAMIC_INDEX)
    if markers != len(values):
        raise verify_error(operation, f"{what} leaves {markers} entries to values, found {len(values)} values")


def check_grid_user(operation: Operation, grids: Grids) -> None:
    """The operations that ask a grid for its shape, or for places on it."""
    if isinstance(operation, ProcessLinearIndexOp):
        grids.sizes(operation, operation.grid_name)
    elif isinstance(operation, GridShapeOp | ProcessMultiIndexOp):
        sizes = grids.sizes(operation, operation.grid_name)
        axes = tuple(operation.axes.get_values())
        check_axes(operation, axes, sizes)
        wanted = len(axes) or len(sizes)
        if len(operation.results) != wanted:
            raise verify_error(operation, f"expected {wanted} results, found {len(operation.results)}")
    elif isinstance(operation, NeighborsLinearIndicesOp):
        sizes = grids.sizes(operation, operation.grid_name)
        axes = tuple(operation.split_axes.get_values())
        check_axes(operation, axes, sizes)
        if len(operation.device) != len(sizes):
            raise verify_error(
                operation, f"a device of this grid has {len(sizes)} coordinates, found {len(operation.device)}"
            )
        if len(axes) != 1:
            raise verify_error(operation, f"neighbours are those along exactly 1 axis, found {list(axes)}")
