"""Checks that the constructors of sharded arrays make before they allocate: of arguments, and between processes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from spmd_grid.compute.plain_operands import note_operands
from spmd_grid.errors import GridError, ShapeError, SpmdError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.arguments import check_grid
from spmd_grid.ops.calls.compare import AgreeDtype, compare_array

__all__ = ["agree_dtype", "all_axes", "check_on_grid", "check_sharding", "compared_array"]

_AGREEMENTS = {name: AgreeDtype(name) for name in ("from_local", "from_function")}


def check_sharding(op: str, sharding: Sharding, grid: ProcessGrid) -> None:
    """Refuse a grid that this process cannot use, and a sharding on another grid.  Local.  Raises GridError."""
    check_grid(op, grid)
    check_on_grid(op, sharding, grid)


def check_on_grid(op: str, sharding: Sharding, grid: ProcessGrid) -> None:
    """Refuse what is no sharding, or a sharding on another grid.  Local.  Raises GridError."""
    if not isinstance(sharding, Sharding):
        raise GridError(f"{op}: sharding is {sharding!r}; it must be a Sharding")
    if sharding.grid != grid.grid:
        raise GridError(f"{op}: the sharding is on {sharding.grid!r}, the array on {grid.grid!r}; they must be equal")


def all_axes(grid: ProcessGrid) -> tuple[int, ...]:
    """The numbers of all axes of ``grid``.  Local."""
    return tuple(range(grid.ndim))


def compared_array(array: ArrayLike, sharding: Sharding, grid: ProcessGrid) -> np.ndarray:
    """``array`` as an array, once every process has one of the same shape and dtype.  Collective over the grid."""
    compared: np.ndarray = compare_array.run_in_gate(array, grid, all_axes(grid), (sharding,))
    if not any(sharding.split_axes):  # every process keeps all of it, and reads its own from now on
        note_operands(grid, "from_global", compared)
    return compared


def agree_dtype(op: str, make: Callable[[], np.ndarray], grid: ProcessGrid, layout: Layout) -> np.ndarray:
    """The array that ``make`` returns on this process, once every process has one, all of one dtype.

    Collective over the grid.  Where ``make`` raises on one process, all processes raise.
    """
    call = _AGREEMENTS[op].find_call(grid, all_axes(grid), (layout,), thread_name=grid.process.gate.thread_name())
    array: np.ndarray | None = None
    cause: Exception | None = None
    try:
        array = make()
        opening = call.opening(Facts(array.shape, array.dtype))
    except SpmdError as error:
        opening = call.refusal(call.blame(error))
    except Exception as error:  # from the caller's function: the other processes must learn of it, by its text
        cause = error
        opening = call.refusal(call.blame(ShapeError(f"{op}: {type(error).__name__}: {error}")))
    try:
        call.agree_by_itself(opening, array)
    except SpmdError as error:
        raise error from cause
    assert array is not None, "a refusal raises on every process, this one included"
    return array
