"""send and recv: one array from one device of a group to another.

A message is a frame (shape, dtype, and small arrays whole) and, for larger arrays, the bytes under a tag of their
own that the frame names; so messages that are on their way at once cannot be confused.  In checking mode the frame
announces the sender's call as well, which the receiver compares with its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spmd_grid.errors import OutputError, SpmdError
from spmd_grid.exchange.agreement import encode_error, error_from, mismatch
from spmd_grid.exchange.header import (
    ERROR,
    PLAIN,
    PREFIX_BYTES,
    SIGNED,
    Facts,
    decode_facts,
    encode,
    encode_facts,
    read_prefix,
)
from spmd_grid.exchange.memory import land, pack
from spmd_grid.exchange.pending import Request, drive
from spmd_grid.grid.box import Box
from spmd_grid.grid.groups import in_group_device
from spmd_grid.ops.arguments import as_array, check_grid, check_output, hashable, root_index
from spmd_grid.ops.member_arrays import fresh
from spmd_grid.ops.plan import CallPlan
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, Communicator, tag_of
from spmd_grid.watch.call_site import call_site
from spmd_grid.watch.traffic import Traffic

__all__ = ["recv", "send"]


class _Call(NamedTuple):
    """One side of a message: what both must agree on, and the operation in words."""

    comm: Communicator
    group: str
    text: str

    def describe(self) -> str:
        return self.text

    def signature(self, x: str = "") -> str:
        """Who calls, and where, for the table of a mismatch."""
        return f"{self.comm.process.label()}: {self.text}{x} at {call_site()}"


def _prepare(name: str, grid, grid_axes, argument: str, coords, takes_any: bool = False) -> tuple[_Call, int | None]:
    """The call, which is under way from now on, and the other's place in the group; None for anybody's.  Local."""
    check_grid(name, grid)
    axes = grid.grid.axes(grid_axes, f"{name}: grid_axes")
    place = None if coords is None and takes_any else root_index(name, grid, axes, hashable(coords), argument)
    shown = "any" if place is None else list(in_group_device(grid.grid, axes, place))
    comm = grid.peers(axes)
    call = _Call(comm, f"{list(axes)} of {grid.grid}", f"{name}(grid_axes={list(axes)}, {argument}={shown})")
    comm.process.activity = call
    return call, place


class Send:
    """Sends ``x`` to the device ``destination`` of the own group, which must call `recv`.

    Collective between the two devices; the others of the group need not know.  ``destination`` lists coordinates along
    ``grid_axes``.  Shape and dtype travel with the message.  Returns None when ``x`` may be used again; whether that is
    before the other device receives is not promised, except that a message to oneself is always buffered.

    Raises `AxisError`, `DeviceError`, and `DTypeError`; the latter on both devices.

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

    def __call__(self, x, grid, grid_axes, destination) -> None:
        call, place, steps = self._prepare(x, grid, grid_axes, destination)
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(call, x, self._go, call, place, steps)
        return self._go(call, place, steps)

    def _go(self, call: _Call, place: int, steps: Iterator[list]) -> None:
        if place == call.comm.rank:
            Request(call.comm, steps, call)  # completes when this process receives it
        else:
            drive(call.comm, steps)
        call.comm.process.activity = None

    def start(self, x, grid, grid_axes, destination) -> Request:
        """Begins to send; x must hold still until ``wait()``."""
        call, _, steps = self._prepare(x, grid, grid_axes, destination)
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(call, x, Request, call.comm, steps, call)
        return Request(call.comm, steps, call)

    def plan(self, grid, shape, dtype, grid_axes, destination) -> CallPlan:
        """The operation for arrays of ``shape`` and ``dtype``.  Local."""
        text = f"send(grid_axes={list(grid_axes)}, destination={destination})"
        return CallPlan(
            self.name,
            text,
            shape,
            dtype,
            lambda x, out: self(x, grid, grid_axes, destination),
            lambda x, out: self.start(x, grid, grid_axes, destination),
        )

    def _prepare(self, x, grid, grid_axes, destination) -> tuple[_Call, int, Iterator[list]]:
        call, place = _prepare(self.name, grid, grid_axes, "destination", destination)
        comm = call.comm
        try:
            x = as_array(self.name, x)
        except SpmdError as error:
            culprit = type(error)(f"{error} (on rank {grid.rank} {grid.coords})")
            return call, place, _send_error(comm, place, culprit)
        if place == comm.rank:
            x = x.copy()
        return call, place, _send_array(call, place, x)


class Recv:
    """Receives an array that a device of the own group sends with `send`.

    Collective as `send`.  ``source`` lists the sender's coordinates along ``grid_axes``; without it,
    the message of any sender is taken.  Messages of one sender arrive in the order in which they were sent.  Result:
    a new array, or ``out``, which must have the message's shape and dtype.

    Raises `AxisError`, `DeviceError`, `OutputError` (on this device; the message is used up), what the sender
    raised and, in checking mode, `MismatchError` (on this device) where the sender named other grid axes.

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

    def __call__(self, grid, grid_axes, source=None, *, out=None) -> np.ndarray:
        call, place = _prepare(self.name, grid, grid_axes, "source", source, takes_any=True)
        comm, steps = call.comm, _receive_array(call, place, out, noted=True)
        recorder = comm.process.recorder
        if recorder is not None and recorder.is_idle:
            result = recorder.run(call, None, drive, comm, steps)
        else:
            result = drive(comm, steps)
        comm.process.activity = None
        return result

    def start(self, grid, grid_axes, source=None, *, out=None) -> Request:
        """Begins to receive; ``wait()`` gives the array."""
        call, place = _prepare(self.name, grid, grid_axes, "source", source, takes_any=True)
        return Request(call.comm, _receive_array(call, place, out), call)

    def plan(self, grid, shape, dtype, grid_axes, source=None) -> CallPlan:
        """The operation for messages of ``shape`` and ``dtype``; others are refused.  Local."""

        def into(out) -> np.ndarray:
            return fresh(grid, plan.shape, plan.dtype) if out is None else out

        plan = CallPlan(
            self.name,
            f"recv(grid_axes={list(grid_axes)}, source={'any' if source is None else source})",
            shape,
            dtype,
            lambda x, out: self(grid, grid_axes, source, out=into(out)),
            lambda x, out: self.start(grid, grid_axes, source, out=into(out)),
            takes=False,
        )
        return plan


def _send_array(call: _Call, place: int, x: np.ndarray) -> Iterator[list]:
    comm, facts = call.comm, Facts(x.shape, x.dtype)
    recorder, kind, body = comm.process.recorder, PLAIN, encode_facts(facts)
    if recorder is not None and recorder.check:
        kind, body = SIGNED, pickle.dumps((body, call.group, call.signature(f" on {x.dtype} {x.shape}")))
    frame, late, tag = _frame(comm, kind, body)
    if facts.fits_inline:
        frame[HEADER_BYTES : HEADER_BYTES + facts.nbytes] = x.tobytes()
    _note(comm, comm.rank, tag, place, facts.nbytes)
    requests = comm.isend_frame(frame, place)
    if late:
        requests += comm.isend_body(np.frombuffer(late, np.uint8), place, tag)
    if not facts.fits_inline:
        whole = Box.from_shape(x.shape)
        requests += comm.isend_body(pack(x, [whole], (0, x.size)), place, tag)
    yield requests


def _send_error(comm: Communicator, place: int, error: SpmdError) -> Iterator[list]:
    """Tells the receiver, which waits for an array, why there is none; then raises here too."""
    frame, body, tag = _frame(comm, ERROR, encode_error(error))
    yield comm.isend_frame(frame, place) + comm.isend_body(np.frombuffer(body, np.uint8), place, tag)
    raise error


def _frame(comm: Communicator, kind: int, body: bytes) -> tuple[bytearray, bytes, int]:
    """A frame that announces ``body``, what of the body must follow, and under which tag."""
    comm.process.messages += 1
    tag = tag_of("bodies of send and recv", comm.process.messages)
    header, late = encode(kind, tag.to_bytes(8, "little"), body)
    return bytearray(header.ljust(FRAME_BYTES, b"\0")), late, tag


def _receive_array(call: _Call, source: int | None, out: np.ndarray | None, noted: bool = False) -> Iterator[list]:
    """``noted``: whether a trace is to have it, with the operation under way."""
    comm, frame = call.comm, bytearray(FRAME_BYTES)
    recorder = comm.process.recorder
    signature = call.signature() if recorder is not None and recorder.check else ""
    request = comm.irecv_frame(frame, source)
    yield [request]
    sender = comm.source_of(request)
    kind, length, tag_bytes = read_prefix(frame)
    tag = int.from_bytes(tag_bytes, "little")
    if noted:
        _note(comm, sender, tag)
    body, problem, signed = bytes(frame[PREFIX_BYTES : PREFIX_BYTES + length]), None, ""
    if kind != PLAIN:
        late = np.empty(length, np.uint8)
        yield comm.irecv_body(late, sender, tag)
        body = late.tobytes()
    if kind == ERROR:
        raise error_from(body)
    if kind == SIGNED:
        body, group, signed = pickle.loads(body)
        if group != call.group:
            problem = mismatch([signed, signature])
    facts = decode_facts(body)
    if problem is None and out is not None:
        problem = _misfit(out, facts, signed)
    # The message is taken in any case: its sender may be waiting for that.
    target = np.empty(facts.shape, facts.dtype) if out is None or problem is not None else out
    whole = Box.from_shape(facts.shape)
    incoming, finish = land(target, [whole], (0, whole.size))
    if facts.fits_inline:
        incoming[:] = np.frombuffer(frame, np.uint8, facts.nbytes, HEADER_BYTES)
    else:
        yield comm.irecv_body(incoming, sender, tag)
    if finish is not None:
        finish()
    if problem is not None:
        raise problem
    return target


class _Passed(NamedTuple):
    """A message for traces."""

    told: Traffic

    def traffic(self) -> Traffic:
        return self.told


def _note(comm: Communicator, sender: int, tag: int, place: int | None = None, n_bytes: int = 0) -> None:
    """Notes a member's message for traces: its sender says what goes to ``place``, its receiver waits for that."""
    recorder = comm.process.recorder
    if recorder is not None:
        processes = comm.processes
        sent = {} if place in (None, comm.rank) else {processes[place]: n_bytes}
        awaits = (processes[sender],) if place is None else ()
        recorder.moved(_Passed(Traffic(sent, "message", f"message {tag} of {processes[sender]}", awaits)))


def _misfit(out, facts: Facts, signed: str) -> OutputError | None:
    """Why ``out`` cannot take the message, which was ``signed`` by its sender if in checking mode."""
    try:
        check_output("recv", out, None)
    except OutputError as error:
        return error
    if out.shape == facts.shape and out.dtype == facts.dtype:
        return None
    return OutputError(
        f"recv: out has shape {out.shape} and dtype {out.dtype}; the message has shape {facts.shape} and dtype"
        f" {facts.dtype}{signed and f', sent by {signed}'}"
    )


send = Send()
recv = Recv()
