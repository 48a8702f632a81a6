"""Lists of grid axes per iterator of an operation, as mutations give them."""

from __future__ import annotations

from typing import Any

from spmd_grid.errors import AxisError, ShardingError
from spmd_grid.functions.interface import HELD, WHOLE, Interface
from spmd_grid.grid.device_grid import Grid

__all__ = ["CutLists", "as_cut_lists", "with_numbers"]

CutLists = tuple[tuple[int | str, ...], ...]


def as_cut_lists(interface: Interface, sharding: Any, operation: str) -> CutLists:
    """A list of axes for each iterator of the ``operation``; missing ones are empty.  Raises ShardingError."""
    iterators = interface.iterators
    rule = f"it must be a Sharding, or a list of grid axes for each of the {len(iterators)} iterators of {operation}"
    if isinstance(sharding, str) or not hasattr(sharding, "__iter__"):
        raise ShardingError(f"mutate: sharding is {sharding!r}; {rule}")
    if any(each.kind == HELD for each in iterators):
        raise ShardingError(
            f"mutate: {operation} is a part of a manual computation, whose blocks hold its cut; mutate a value, or what"
            " the computation is given"
        )
    given = list(sharding)
    if len(given) > len(iterators):
        raise ShardingError(f"mutate: sharding {given} has {len(given)} entries; {rule}")
    for number, axes in enumerate(given):
        if isinstance(axes, str) or not hasattr(axes, "__iter__"):
            raise ShardingError(f"mutate: entry {number} of sharding {given} is {axes!r}; {rule}")
        given[number] = tuple(axes)
        if given[number] and iterators[number].kind == WHOLE:
            raise ShardingError(
                f"mutate: sharding {sharding} cuts iterator {number} of {operation}, which must be whole on a device"
            )
    return (*given, *[()] * (len(iterators) - len(given)))


def with_numbers(grid: Grid, cuts: CutLists, operation: str) -> tuple[tuple[int, ...], ...]:
    """The lists with the numbers of the axes of ``grid``.  Raises AxisError."""
    found = tuple([grid.axes(axes, f"the mutation of {operation}") for axes in cuts])
    used = [axis for axes in found for axis in axes]
    twice = sorted({axis for axis in used if used.count(axis) > 1})
    if twice:
        raise AxisError(
            f"partition: the mutation of {operation} is {list(map(list, cuts))}; it uses grid axes {twice} twice, and"
            " an axis cuts one iterator"
        )
    return found
