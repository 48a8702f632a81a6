"""Checked arguments of `send` and `recv`, kept by the grid for the next time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from spmd_grid.exchange.agreement.header import fingerprint
from spmd_grid.grid.groups import in_group_device
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import as_grid_axes, check_grid, hashable, root_index
from spmd_grid.ops.calls.bounded_cache import keep_call
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import GridAxes

__all__ = ["MOST_SHOWN", "MessageCall", "find_message_call", "prepare_message_call", "reusable"]

MOST_SHOWN = 80  # characters of a grid or an array: dtypes may have many fields


class MessageCall(NamedTuple):
    """One side of a message.

    ``peer``: the member on the other side, None for any; ``group``: fingerprint of the axes and the grid, which must be
    equal on both sides; ``grid``: a description of the grid; ``text``: the call, for reports.
    """

    comm: Communicator
    peer: int | None
    group: bytes
    grid: str
    text: str

    def describe(self) -> str:
        """Describe the operation for reports."""
        return self.text

    @property
    def title(self) -> str:
        """This process and its call, for the table in a mismatch error."""
        return f"{self.comm.process.label()}: {self.text}"


def find_message_call(
    name: str, grid: ProcessGrid, grid_axes: GridAxes | None, argument: str, coords: Any
) -> MessageCall:
    """Look up or prepare the call, and make it the activity of this process.  Local."""
    axes, coords = hashable(grid_axes), hashable(coords)
    if type(axes) is tuple and (coords is None or type(coords) is tuple):
        # With the types, since 1, 1.0 and True are equal, but not all of them are valid coordinates.
        key = name, axes, coords, tuple(map(type, axes + (coords or ())))
        try:
            call = grid.calls[key]
        except (KeyError, TypeError, AttributeError):
            call = prepare_message_call(name, grid, axes, argument, coords)
            keep_call(grid, key, call)
    elif axes is None:
        check_grid(name, grid)
        return find_message_call(name, grid, as_grid_axes(name, grid, None), argument, coords)
    else:  # iterators, which can be read only once, and what will be refused
        call = prepare_message_call(name, grid, axes, argument, coords)
    call.comm.process.activity = call
    return call


def prepare_message_call(
    name: str, grid: ProcessGrid, grid_axes: GridAxes | None, argument: str, coords: Any
) -> MessageCall:
    """Check the arguments of ``name``; ``argument`` is the name of ``coords``.  Local."""
    check_grid(name, grid)
    axes = as_grid_axes(name, grid, grid_axes)
    peer = None if coords is None and argument == "source" else root_index(name, grid, axes, coords, argument)
    shown = "any" if peer is None else list(in_group_device(grid.grid, axes, peer))
    group, on_grid = fingerprint(f"{list(axes)} of {grid.grid!r}"), f" on the grid {grid.grid}"[:MOST_SHOWN]
    return MessageCall(grid.peers(axes), peer, group, on_grid, f"{name}(grid_axes={list(axes)}, {argument}={shown})")


def reusable(values: Any) -> Any:
    """Convert an iterator, which can be read only once, to a tuple."""
    return tuple(values) if isinstance(values, Iterator) else values
