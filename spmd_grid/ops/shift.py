"""shift: every device's array to the device ``offset`` further along one grid axis."""

from __future__ import annotations

from operator import index

import numpy as np

from spmd_grid.errors import AxisError, DTypeError
from spmd_grid.exchange.agreement.header import Facts
from spmd_grid.exchange.requests import Request
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer
from spmd_grid.grid.box import Box
from spmd_grid.ops.calls.collective import CollectiveCall, Operation
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.calls.shape_rules import check_out
from spmd_grid.ops.movement.box_moves import Movement

__all__ = ["shift"]


class Shift(Operation):
    """Sends each device's array from coordinate i to i + ``offset`` along ``shift_axis``, one of ``grid_axes``.

    Collective over ``grid_axes``.  ``offset`` may be negative.  With ``rotate`` the axis closes to a ring; without, a
    device that nobody sends to gets an array of x's own shape and dtype filled with ``fill``, or None where no fill
    is given.  Shapes and dtypes travel with the message and may differ by device.  Result: a new array, or ``out``.

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

    def __call__(self, x, grid, grid_axes, shift_axis, offset, rotate=False, fill=None, *, out=None):
        return self._operate(x, grid, grid_axes, (shift_axis, offset, rotate, fill, _sign(fill)), out)

    def start(self, x, grid, grid_axes, shift_axis, offset, rotate=False, fill=None, *, out=None) -> Request:
        """Begins the operation; ``wait()`` gives its result, and x must hold still until then."""
        return self._begin(x, grid, grid_axes, (shift_axis, offset, rotate, fill, _sign(fill)), out)

    def plan(
        self, grid, shape, dtype, grid_axes, shift_axis, offset, rotate=False, fill=None, *, path=None, name=None
    ) -> OperationPlan:
        """The operation made ready for arrays of ``shape`` and ``dtype``.  Collective, as the operation is."""
        return self._plan(grid, shape, dtype, grid_axes, (shift_axis, offset, rotate, fill, _sign(fill)), path, name)

    def group_axes(self, grid, axes, shift_axis, *rest) -> tuple[int, ...]:
        """Data moves along ``shift_axis`` only, so its lines are the groups that matter."""
        (axis,) = grid.grid.axes([shift_axis], "shift: shift_axis")
        if axis not in axes:
            raise AxisError(f"shift: shift_axis={shift_axis!r} is not among grid_axes={list(axes)}; it must be")
        return (axis,)

    def prepare(self, grid, axes, shift_axis, offset, rotate, fill, sign) -> dict:
        try:
            number = None if isinstance(offset, (bool, np.bool_)) else index(offset)
        except TypeError:
            number = None
        if number is None:
            raise AxisError(f"shift: offset={offset!r}; it must be a whole number of devices")
        return {"shift_axis": axes[0], "offset": number, "rotate": bool(rotate), "fill": fill}

    def resolve(self, call: CollectiveCall, facts: list[Facts]) -> Movement:
        comm = call.comm
        sources = [self._neighbor(call, member, -call.args.offset) for member in range(comm.size)]
        incoming = [_incoming(facts, member, source, call.args.fill) for member, source in enumerate(sources)]
        for member, (shape, dtype) in enumerate(incoming):
            if sources[member] is None and call.args.fill is not None:
                _check_fill(call.args.fill, dtype, call.label(member))
            check_out(
                self.name, facts[member : member + 1], [shape], dtype, lambda _, member=member: call.label(member)
            )
        target = self._neighbor(call, comm.rank, call.args.offset)
        own = Box.from_shape(facts[comm.rank].shape)
        shape, dtype = incoming[comm.rank]
        source = sources[comm.rank]
        whole = None if source is None else Box.from_shape(shape)
        transfer = Transfer(
            pattern="pairwise",
            rank=comm.rank,
            size=comm.size,
            source_shape=own.shape,
            target_shape=shape,
            sends=() if target is None or own.is_empty else (Send(target, own),),
            receives=() if whole is None or whole.is_empty else (Receive(source, whole, whole),),
            volume=0,
        )
        return Movement(call, facts, transfer, shape, dtype, True, fill=call.args.fill if source is None else None)

    def _neighbor(self, call: CollectiveCall, member: int, offset: int) -> int | None:
        place = member + offset
        if call.args.rotate:
            return place % call.comm.size
        return place if 0 <= place < call.comm.size else None


def _sign(fill) -> str | None:
    """What tells a fill of -0.0 from the equal 0.0, so that prepared calls are not mixed up."""
    return None if fill is None else str(fill)


def _incoming(facts: list[Facts], member: int, source: int | None, fill):
    """Shape (None: no result) and dtype of what a member gets."""
    if source is not None:
        return facts[source].shape, facts[source].dtype
    return (None if fill is None else facts[member].shape), facts[member].dtype


def _check_fill(fill, dtype: np.dtype, who: str) -> None:
    """``fill`` must be a value of the dtype of whoever nobody sends to."""
    try:
        np.empty((), dtype)[...] = fill
    except (TypeError, ValueError, OverflowError) as error:
        raise DTypeError(f"shift: fill={fill!r} for the array of {who}, of dtype {dtype}; {error}") from None


shift = Shift()
