"""shift: send every device's array to the device ``offset`` further along one grid axis."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from spmd_grid.errors import AxisError, DTypeError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import check_flag
from spmd_grid.ops.calls.collective import CollectiveCall, CollectiveOperation
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.calls.shape_rules import check_out, dtype_of, shape_of
from spmd_grid.ops.movement.movement import Movement
from spmd_grid.typing import Axis, GridAxes, Shape

__all__ = ["shift"]


class Shift(CollectiveOperation):
    """Send each device's array from coordinate i to i + ``offset`` along ``shift_axis``, one of ``grid_axes``.

    Collective over ``grid_axes`` (None: all axes of the grid, in order).  ``offset`` may be negative.  With ``rotate``
    the axis closes to a ring; without it, a device to which no other sends gets an array of x's own shape and dtype
    filled with ``fill``, or None without ``fill``.  Shapes and dtypes travel with the message and may differ by device.
    Result: a new array, or ``out``.

    One message of ``x.nbytes`` per device.

    Raises `AxisError`, `DTypeError` and `OutputError`, the same on all devices of a line along ``shift_axis``.

    >>> import spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     ring = sg.shift(10 * grid.rank, grid, [0], shift_axis=0, offset=1, rotate=True)
    ...     return int(ring), sg.shift(10 * grid.rank, grid, [0], shift_axis=0, offset=-1)
    >>> sg.run_spmd(body, ranks=3)
    [(20, array(10)), (0, array(20)), (10, None)]
    """

    name = "shift"

    def __call__(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        shift_axis: Axis,
        offset: int,
        rotate: bool = False,
        fill: Any = None,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray | None:
        return self._operate(x, grid, grid_axes, (shift_axis, offset, rotate, fill, _sign(fill)), out)

    def start(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        shift_axis: Axis,
        offset: int,
        rotate: bool = False,
        fill: Any = None,
        *,
        out: np.ndarray | None = None,
    ) -> Request:
        """Start the operation; ``wait()`` of the request returns the result.  Do not change x until then."""
        return self._begin(x, grid, grid_axes, (shift_axis, offset, rotate, fill, _sign(fill)), out)

    def plan(
        self,
        grid: ProcessGrid,
        shape: Sequence[int],
        dtype: np.typing.DTypeLike,
        grid_axes: GridAxes | None,
        shift_axis: Axis,
        offset: int,
        rotate: bool = False,
        fill: Any = None,
        *,
        path: str | None = None,
        name: str | None = None,
    ) -> OperationPlan:
        """Prepare the operation for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(grid, shape, dtype, grid_axes, (shift_axis, offset, rotate, fill, _sign(fill)), path, name)

    def group_axes(self, grid: ProcessGrid, axes: tuple[int, ...], shift_axis: Axis, *rest: Any) -> tuple[int, ...]:
        """``shift_axis`` alone: data moves only along it."""
        (axis,) = grid.grid.axes([shift_axis], "shift: shift_axis")
        if axis not in axes:
            raise AxisError(f"shift: shift_axis={shift_axis!r} is not among grid_axes={list(axes)}; it must be")
        return (axis,)

    def prepare(
        self, grid: ProcessGrid, axes: tuple[int, ...], shift_axis: Any, offset: Any, rotate: Any, fill: Any, sign: Any
    ) -> dict[str, Any]:
        try:
            number = None if isinstance(offset, (bool, np.bool_)) else index(offset)
        except TypeError:
            number = None
        if number is None:
            raise AxisError(f"shift: offset={offset!r}; it must be a whole number of devices")
        check_flag("shift", "rotate", rotate)
        return {"shift_axis": axes[0], "offset": number, "rotate": bool(rotate), "fill": fill}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Movement:
        comm, fill = call.comm, call.args.fill
        sources = [self._neighbor(call, member, -call.args.offset) for member in range(comm.size)]
        for member, source in enumerate(sources):
            shape, dtype = _incoming(facts, member, source, fill)
            if source is None and fill is not None:
                _check_fill(fill, dtype, call.label(member))
            if facts[member].out_shape is not None:
                check_out(self.name, facts[member : member + 1], [shape], dtype, lambda _: call.label(member))  # noqa: B023
        source, target = sources[comm.rank], self._neighbor(call, comm.rank, call.args.offset)
        own = Box.from_shape(shape_of(facts[comm.rank]))
        shape, dtype = _incoming(facts, comm.rank, source, fill)
        receives: tuple[Receive, ...] = ()
        if source is not None and not (whole := Box.from_shape(shape_of(facts[source]))).is_empty:
            receives = (Receive(source, whole, whole),)
        transfer = Transfer(
            pattern="pairwise",
            rank=comm.rank,
            size=comm.size,
            source_shape=own.stops,
            target_shape=shape,
            sends=() if target is None or own.is_empty else (Send(target, own),),
            receives=receives,
            volume=0,
        )
        return Movement(call, facts, transfer, shape, dtype, fill=fill if source is None else None)

    def _neighbor(self, call: CollectiveCall, member: int, offset: int) -> int | None:
        """The member ``offset`` further; None beyond the end of the axis."""
        other = member + offset
        if call.args.rotate:
            return other % call.comm.size
        return other if 0 <= other < call.comm.size else None


def _sign(fill: Any) -> str | None:
    """A text that differs between the equal fills 0.0 and -0.0, so that their prepared calls are kept apart."""
    return None if fill is None else str(fill)


def _incoming(facts: list[Facts], member: int, source: int | None, fill: Any) -> tuple[Shape | None, np.dtype]:
    """Shape (None: no result) and dtype of a member's result."""
    if source is not None:
        return facts[source].shape, dtype_of(facts[source])
    return (None if fill is None else facts[member].shape), dtype_of(facts[member])


def _check_fill(fill: Any, dtype: np.dtype, member: str) -> None:
    """Refuse a ``fill`` that is no value of ``dtype``, the dtype of a member to which no other sends."""
    try:
        np.empty((), dtype)[...] = fill
    except (TypeError, ValueError, OverflowError) as error:
        raise DTypeError(f"shift: fill={fill!r} for the array of {member}, of dtype {dtype}; {error}") from None


shift = Shift()
