"""Groups of devices: the members of an operation over some grid axes, and their order.

A group is the set of devices that share all coordinates *outside* its axes.  Its members are numbered row-major over
the axes *in the order given*, the first outermost: over axes [3, 1] a device's index is ``c3 * s1 + c1``.  Without
axes every device is its own group.  ``axes`` are numbers, as :meth:`Grid.axes` gives them.
"""

from __future__ import annotations

import math

from spmd_grid.errors import DeviceError
from spmd_grid.formatting import count_text
from spmd_grid.grid.box import as_ints, multi_index, row_major
from spmd_grid.grid.device_grid import Grid
from spmd_grid.typing import MultiIndex

__all__ = [
    "group_color",
    "group_index",
    "group_member",
    "group_members",
    "group_size",
    "in_group_device",
    "in_group_index",
]


def group_size(grid: Grid, axes: tuple[int, ...]) -> int:
    """Number of devices in a group of ``axes``.  Local.

    >>> group_size(Grid((2, 3, 4)), (2, 0))
    8
    """
    return math.prod([grid.shape[axis] for axis in axes])


def group_index(grid: Grid, coords: MultiIndex, axes: tuple[int, ...]) -> int:
    """The index of the device at ``coords`` within its group.  Local.

    >>> group_index(Grid((2, 3, 4)), (1, 2, 3), (2, 0))
    7
    """
    return row_major([coords[axis] for axis in axes], [grid.shape[axis] for axis in axes])


def group_color(grid: Grid, coords: MultiIndex, axes: tuple[int, ...]) -> int:
    """The number of the group of the device at ``coords``: row-major over the axes that are not listed.  Local.

    >>> group_color(Grid((2, 3, 4)), (1, 2, 3), (2, 0))
    2
    """
    return group_index(grid, coords, tuple([axis for axis in range(grid.ndim) if axis not in axes]))


def group_members(grid: Grid, coords: MultiIndex, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The linear indices of the group of the device at ``coords``, in group order.

    Local.  The cost is proportional to the size of the group, not of the grid.

    >>> group_members(Grid((2, 3)), (1, 2), (0,)), group_members(Grid((2, 3)), (1, 2), (1, 0))
    ((2, 5), (0, 3, 1, 4, 2, 5))
    """
    strides = grid.grid.strides
    members = [sum(coords[axis] * strides[axis] for axis in range(grid.ndim) if axis not in axes)]
    for axis in axes:
        steps = range(0, grid.shape[axis] * strides[axis], strides[axis])
        members = [member + step for member in members for step in steps]
    return tuple(members)


def group_member(grid: Grid, coords: MultiIndex, axes: tuple[int, ...], index: int) -> int:
    """The linear index of member ``index`` of the group of the device at ``coords``; lists no others.  Local.

    >>> group_member(Grid((2, 3)), (1, 2), (1, 0), 3)
    4
    """
    member = list(coords)
    for axis, coord in zip(axes, in_group_device(grid, axes, index), strict=True):
        member[axis] = coord
    return row_major(member, grid.shape)


def in_group_index(grid: Grid, axes: tuple[int, ...], device: object, what: str) -> int:
    """The index within its group of ``device``: coordinates in the order of ``axes``.

    Local.  ``what`` names the argument in error messages: root, source, destination.  Raises DeviceError.

    >>> in_group_index(Grid((2, 3, 4)), (2, 0), [3, 1], "root")
    7
    """
    sizes = tuple([grid.shape[axis] for axis in axes])
    coords = as_ints(device)
    if coords is None:
        raise DeviceError(
            f"{what} is {device!r}; it must be a list of {count_text(len(sizes), 'integer')}, one per entry of"
            f" grid_axes, such as {[0] * len(sizes)}"
        )
    if len(coords) != len(sizes):
        raise DeviceError(
            f"{what} is {list(coords)}, of length {len(coords)}; it must have {count_text(len(sizes), 'coordinate')}, "
            f"one per entry of grid_axes {list(axes)}"
        )
    for axis, coord, size in zip(axes, coords, sizes, strict=True):
        if not 0 <= coord < size:
            raise DeviceError(
                f"{what} is {list(coords)}; coordinates on grid axis {axis} go from 0 to {size - 1}, {coord} is outside"
            )
    return row_major(coords, sizes)


def in_group_device(grid: Grid, axes: tuple[int, ...], index: int) -> MultiIndex:
    """The coordinates, in the order of ``axes``, of member ``index`` of a group; inverse of :func:`in_group_index`.

    Local.

    >>> in_group_device(Grid((2, 3, 4)), (2, 0), 7)
    (3, 1)
    """
    return multi_index(index, [grid.shape[axis] for axis in axes])
