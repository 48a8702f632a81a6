"""send and recv: one array from one device of a group to another."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np

from spmd_grid.errors import SpmdError
from spmd_grid.exchange.requests import Request, drive
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.ops.calls.arguments import as_array, gate_of
from spmd_grid.ops.calls.call_plan import CallPlan
from spmd_grid.ops.calls.message_call import MessageCall, find_message_call, prepare_message_call, reusable
from spmd_grid.ops.movement.member_arrays import fresh
from spmd_grid.ops.movement.message import receive_array, send_array, send_error
from spmd_grid.typing import GridAxes
from spmd_grid.watch.call_site import Site, site_of

__all__ = ["recv", "send"]


class SendOperation:
    """Send ``x`` to the device ``destination`` of the own group, which must call `recv`.

    Collective between the two devices; the others of the group take no part.  ``destination`` lists coordinates along
    ``grid_axes`` (None: all axes of the grid, in order).  Shape and dtype travel with the message.  Returns None when
    ``x`` may be used again; whether that is before the other device receives is not promised, except that a message to
    oneself is always buffered.

    Raises `AxisError`, `DeviceError`, and `DTypeError`; the latter on both devices.  A message that no process has
    received when the program ends makes it fail, with the line of this call.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     if grid.rank == 0:
    ...         sg.send(np.arange(4), grid, [0], destination=[2])
    ...     return sg.recv(grid, [0], source=[0]) if grid.rank == 2 else None
    >>> sg.run_spmd(body, ranks=3)
    [None, None, array([0, 1, 2, 3])]
    """

    name = "send"

    def __call__(
        self, x: np.typing.ArrayLike, grid: ProcessGrid, grid_axes: GridAxes | None, destination: Sequence[int]
    ) -> None:
        site = site_of(sys._getframe(1))
        gate_of(self.name, grid).run(self.name, self._run, x, grid, grid_axes, destination, site)

    def _run(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        destination: Sequence[int],
        site: Site,
    ) -> None:
        call, steps = self._prepare(x, grid, grid_axes, destination, site)
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(call, x, self._drive, call, steps)
        return self._drive(call, steps)

    def _drive(self, call: MessageCall, steps: Iterator[list]) -> None:
        if call.peer == call.comm.rank:
            Request(call.comm, steps, call)  # completes when this process receives it
        else:
            drive(call.comm, steps)
        call.comm.process.activity = None

    def start(
        self, x: np.typing.ArrayLike, grid: ProcessGrid, grid_axes: GridAxes | None, destination: Sequence[int]
    ) -> Request:
        """Start to send.  Do not change x until ``wait()`` of the request has returned."""
        site = site_of(sys._getframe(1))
        return gate_of(self.name, grid).run(f"{self.name}.start", self._start, x, grid, grid_axes, destination, site)

    def _start(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        destination: Sequence[int],
        site: Site,
    ) -> Request:
        call, steps = self._prepare(x, grid, grid_axes, destination, site)
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(call, x, Request, call.comm, steps, call)
        return Request(call.comm, steps, call)

    def plan(
        self,
        grid: ProcessGrid,
        shape: Sequence[int],
        dtype: np.typing.DTypeLike,
        grid_axes: GridAxes | None,
        destination: Sequence[int],
    ) -> CallPlan:
        """Prepare the operation for arrays of ``shape`` and ``dtype``.  Local."""
        grid_axes, destination = reusable(grid_axes), reusable(destination)
        return CallPlan(
            self.name,
            prepare_message_call(self.name, grid, grid_axes, "destination", destination).text,
            shape,
            dtype,
            lambda x, out: self(x, grid, grid_axes, destination),
            lambda x, out: self.start(x, grid, grid_axes, destination),
        )

    def _prepare(
        self,
        x: np.typing.ArrayLike,
        grid: ProcessGrid,
        grid_axes: GridAxes | None,
        destination: Sequence[int],
        site: Site,
    ) -> tuple[MessageCall, Iterator[list]]:
        """The call and the steps that send ``x``, or the error that ``x`` cannot be sent."""
        call = find_message_call(self.name, grid, grid_axes, "destination", destination)
        try:
            x = as_array(self.name, x)
        except SpmdError as error:
            culprit = type(error)(f"{error} (on rank {grid.rank} {grid.coords})")
            return call, send_error(call, culprit, site)
        if call.peer == call.comm.rank:
            x = x.copy()
        return call, send_array(call, x, site)


class RecvOperation:
    """Receive an array that a device of the own group sends with `send`.

    Collective as `send`.  ``source`` lists the sender's coordinates along ``grid_axes`` (None: all axes of the grid, in
    order); without it, the message of any sender is received.  Messages of one sender arrive in the order in which they
    were sent.  Result: a new array, or ``out``, which must have the message's shape and dtype.

    Raises `AxisError`, `DeviceError`, `OutputError` (on this device; the message is lost), the sender's error and, in
    checking mode, `MismatchError` (on this device) if the sender named other axes, or another grid, of the same
    processes.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2,))
    ...     sent = sg.send.start(10 * grid.rank + np.arange(2), grid, [0], destination=[1 - grid.rank])
    ...     received = sg.recv(grid, [0])
    ...     sent.wait()
    ...     return received
    >>> sg.run_spmd(body, ranks=2)
    [array([10, 11]), array([0, 1])]
    """

    name = "recv"

    def __call__(
        self,
        grid: ProcessGrid,
        grid_axes: GridAxes | None = None,
        source: Sequence[int] | None = None,
        *,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        return gate_of(self.name, grid).run(self.name, self._run, grid, grid_axes, source, out)

    def _run(
        self, grid: ProcessGrid, grid_axes: GridAxes | None, source: Sequence[int] | None, out: np.ndarray | None
    ) -> np.ndarray:
        call = find_message_call(self.name, grid, grid_axes, "source", source)
        comm, steps = call.comm, receive_array(call, out, traced=True)
        recorder = comm.process.recorder
        if recorder is not None and recorder.is_idle:
            result = recorder.run(call, None, drive, comm, steps)
        else:
            result = drive(comm, steps)
        comm.process.activity = None
        return result

    def start(
        self,
        grid: ProcessGrid,
        grid_axes: GridAxes | None = None,
        source: Sequence[int] | None = None,
        *,
        out: np.ndarray | None = None,
    ) -> Request:
        """Start to receive; ``wait()`` of the request returns the array."""
        return gate_of(self.name, grid).run(f"{self.name}.start", self._start, grid, grid_axes, source, out)

    def _start(
        self, grid: ProcessGrid, grid_axes: GridAxes | None, source: Sequence[int] | None, out: np.ndarray | None
    ) -> Request:
        call = find_message_call(self.name, grid, grid_axes, "source", source)
        return Request(call.comm, receive_array(call, out), call)

    def plan(
        self,
        grid: ProcessGrid,
        shape: Sequence[int],
        dtype: np.typing.DTypeLike,
        grid_axes: GridAxes | None = None,
        source: Sequence[int] | None = None,
    ) -> CallPlan:
        """Prepare the operation for messages of ``shape`` and ``dtype``; others are refused.  Local."""
        grid_axes, source = reusable(grid_axes), reusable(source)

        def target(out: np.ndarray | None) -> np.ndarray:
            return fresh(grid, plan.shape, plan.dtype) if out is None else out

        plan = CallPlan(
            self.name,
            prepare_message_call(self.name, grid, grid_axes, "source", source).text,
            shape,
            dtype,
            lambda x, out: self(grid, grid_axes, source, out=target(out)),
            lambda x, out: self.start(grid, grid_axes, source, out=target(out)),
            takes_array=False,
        )
        return plan


send = SendOperation()
recv = RecvOperation()
