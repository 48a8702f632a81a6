"""Calls of operations, and the members of their groups, as reports show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.groups import group_members, in_group_device
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.reduction_kind import ReductionKind

__all__ = ["text_of_call", "text_of_member"]


def text_of_call(name: str, grid: Grid, axes: tuple[int, ...], args: Mapping[str, Any], thread_name: str = "") -> str:
    """Write a call as its program does: the name, the grid axes, and the arguments that are not None."""

    def shown(name: str, value: Any) -> str:
        if isinstance(value, ReductionKind):
            return repr(value.shown)
        if name == "root":
            return repr(list(in_group_device(grid, axes, value)))
        return repr(list(value)) if type(value) is tuple else str(value)

    given = [f"{name}={shown(name, value)}" for name, value in args.items() if value is not None]
    thread = f" in thread {thread_name}" if thread_name else ""
    return f"{name}({', '.join([f'grid_axes={list(axes)}', *given])}){thread}"


def text_of_member(grid: ProcessGrid, axes: tuple[int, ...], member: int) -> str:
    """Name a member of this process's group over ``axes``: ``rank 3 (1, 0)``."""
    assert grid.coords is not None  # `check_grid` has refused processes outside the grid
    device = group_members(grid.grid, grid.coords, axes)[member]
    return f"rank {grid.grid.process(device)} {grid.grid.multi_index(device)}"
