"""send and recv: one array from one device of a group to another.

A message is a frame (shape, dtype, and small arrays whole) and, for larger arrays, a body.  In checking mode the frame
has the sender's call as well, which the receiver compares with its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from spmd_grid.errors import OutputError, SpmdError
from spmd_grid.exchange.agreement.facts import encode_error, error_from
from spmd_grid.exchange.agreement.header import (
    ERROR,
    PLAIN,
    PREFIX_BYTES,
    Facts,
    decode_facts,
    encode,
    encode_facts,
    fingerprint,
    read_prefix,
)
from spmd_grid.exchange.requests import Request, drive
from spmd_grid.exchange.transfer.flat_bytes import pack, receive_buffer
from spmd_grid.grid.box import Box
from spmd_grid.grid.groups import in_group_device
from spmd_grid.ops.calls.arguments import as_array, check_grid, check_output, gate_of, hashable, root_index
from spmd_grid.ops.calls.collective import keep_call
from spmd_grid.ops.calls.plan import CallPlan
from spmd_grid.ops.movement.member_arrays import fresh
from spmd_grid.transport.communicator import (
    FRAME_BYTES,
    HEADER_BYTES,
    MESSAGE_FRAME_BYTES,
    SIGNATURE_BYTES,
    Communicator,
)
from spmd_grid.transport.mismatch import in_columns, mismatch
from spmd_grid.watch.call_site import call_site
from spmd_grid.watch.recorder import shown
from spmd_grid.watch.traffic import Traffic

__all__ = ["recv", "send"]

_MOST_SHOWN = 80  # of what a message is: dtypes may have many fields
_GROUP_BYTES = 8
_BETWEEN = "\x1f"  # columns of words


class _Call(NamedTuple):
    """One side of a message; ``place``: the other's in the group, None for anybody's."""

    comm: Communicator
    place: int | None
    group: bytes  # what the other's must be equal to
    grid: str  # in words
    text: str

    def describe(self) -> str:
        """The operation in words, for reports."""
        return self.text

    @property
    def said(self) -> str:
        """Who is in it, for the table of a mismatch."""
        return f"{self.comm.process.label()}: {self.text}"


def _find(name: str, grid, grid_axes, argument: str, coords) -> _Call:
    """The prepared call, which is under way from now on.  Local."""
    axes, coords = hashable(grid_axes), hashable(coords)
    if type(axes) is tuple and (coords is None or type(coords) is tuple):
        # The types as well, since 1, 1.0 and True are equal, and not all of them are coordinates.
        key = name, axes, coords, tuple(map(type, axes + (coords or ())))
        try:
            call = grid.calls[key]
        except (KeyError, TypeError, AttributeError):
            call = _prepare(name, grid, axes, argument, coords)
            keep_call(grid, key, call)
    else:  # what can be read but once, or is refused
        call = _prepare(name, grid, axes, argument, coords)
    call.comm.process.activity = call
    return call


def _again(values):
    """What can be read but once, as a tuple."""
    return tuple(values) if isinstance(values, Iterator) else values


def _prepare(name: str, grid, grid_axes, argument: str, coords) -> _Call:
    check_grid(name, grid)
    axes = grid.grid.axes(grid_axes, f"{name}: grid_axes")
    is_anybody = coords is None and argument == "source"
    place = None if is_anybody else root_index(name, grid, axes, coords, argument)
    shown = "any" if is_anybody else list(in_group_device(grid.grid, axes, place))
    group, whose = fingerprint(f"{list(axes)} of {grid.grid!r}"), f" on the grid {grid.grid}"[:_MOST_SHOWN]
    return _Call(grid.peers(axes), place, group, whose, f"{name}(grid_axes={list(axes)}, {argument}={shown})")


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
        return gate_of(self.name, grid).run(self.name, self._run, x, grid, grid_axes, destination)

    def _run(self, x, grid, grid_axes, destination) -> None:
        call, steps = self._prepare(x, grid, grid_axes, destination)
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(call, x, self._go, call, steps)
        return self._go(call, steps)

    def _go(self, call: _Call, steps: Iterator[list]) -> None:
        if call.place == call.comm.rank:
            Request(call.comm, steps, call)  # completes when this process receives it
        else:
            drive(call.comm, steps)
        call.comm.process.activity = None

    def start(self, x, grid, grid_axes, destination) -> Request:
        """Begins to send; x must hold still until ``wait()``."""
        return gate_of(self.name, grid).run(f"{self.name}.start", self._begin, x, grid, grid_axes, destination)

    def _begin(self, x, grid, grid_axes, destination) -> Request:
        call, steps = self._prepare(x, grid, grid_axes, destination)
        recorder = call.comm.process.recorder
        if recorder is not None and recorder.is_idle:
            return recorder.run(call, x, Request, call.comm, steps, call)
        return Request(call.comm, steps, call)

    def plan(self, grid, shape, dtype, grid_axes, destination) -> CallPlan:
        """The operation for arrays of ``shape`` and ``dtype``.  Local."""
        grid_axes, destination = _again(grid_axes), _again(destination)
        return CallPlan(
            self.name,
            _prepare(self.name, grid, grid_axes, "destination", destination).text,
            shape,
            dtype,
            lambda x, out: self(x, grid, grid_axes, destination),
            lambda x, out: self.start(x, grid, grid_axes, destination),
        )

    def _prepare(self, x, grid, grid_axes, destination) -> tuple[_Call, Iterator[list]]:
        call = _find(self.name, grid, grid_axes, "destination", destination)
        try:
            x = as_array(self.name, x)
        except SpmdError as error:
            culprit = type(error)(f"{error} (on rank {grid.rank} {grid.coords})")
            return call, _send_error(call, culprit)
        if call.place == call.comm.rank:
            x = x.copy()
        return call, _send_array(call, x)


class Recv:
    """Receives an array that a device of the own group sends with `send`.

    Collective as `send`.  ``source`` lists the sender's coordinates along ``grid_axes``; without it,
    the message of any sender is taken.  Messages of one sender arrive in the order in which they were sent.  Result:
    a new array, or ``out``, which must have the message's shape and dtype.

    Raises `AxisError`, `DeviceError`, `OutputError` (on this device; the message is used up), what the sender
    raised and, in checking mode, `MismatchError` (on this device) where the sender named other axes, or another grid,
    of the same processes.

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
        return gate_of(self.name, grid).run(self.name, self._run, grid, grid_axes, source, out)

    def _run(self, grid, grid_axes, source, out) -> np.ndarray:
        call = _find(self.name, grid, grid_axes, "source", source)
        comm, steps = call.comm, _receive_array(call, out, noted=True)
        recorder = comm.process.recorder
        if recorder is not None and recorder.is_idle:
            result = recorder.run(call, None, drive, comm, steps)
        else:
            result = drive(comm, steps)
        comm.process.activity = None
        return result

    def start(self, grid, grid_axes, source=None, *, out=None) -> Request:
        """Begins to receive; ``wait()`` gives the array."""
        return gate_of(self.name, grid).run(f"{self.name}.start", self._begin, grid, grid_axes, source, out)

    def _begin(self, grid, grid_axes, source, out) -> Request:
        call = _find(self.name, grid, grid_axes, "source", source)
        return Request(call.comm, _receive_array(call, out), call)

    def plan(self, grid, shape, dtype, grid_axes, source=None) -> CallPlan:
        """The operation for messages of ``shape`` and ``dtype``; others are refused.  Local."""

        grid_axes, source = _again(grid_axes), _again(source)

        def into(out) -> np.ndarray:
            return fresh(grid, plan.shape, plan.dtype) if out is None else out

        plan = CallPlan(
            self.name,
            _prepare(self.name, grid, grid_axes, "source", source).text,
            shape,
            dtype,
            lambda x, out: self(grid, grid_axes, source, out=into(out)),
            lambda x, out: self.start(grid, grid_axes, source, out=into(out)),
            takes=False,
        )
        return plan


def _send_array(call: _Call, x: np.ndarray) -> Iterator[list]:
    comm, place, facts = call.comm, call.place, Facts(x.shape, x.dtype)
    frame, bodies, number = _frame(comm, PLAIN, encode_facts(facts))
    if facts.fits_inline:
        frame[HEADER_BYTES : HEADER_BYTES + facts.nbytes] = x.tobytes()
    recorder = comm.process.recorder
    if recorder is not None:
        _note(recorder, comm, comm.rank, number, place, facts.nbytes)
        if recorder.check:
            signature = _signature(call.group, call.said, shown(x), call.grid, _where(recorder))
            frame[FRAME_BYTES : FRAME_BYTES + len(signature)] = signature
    if not facts.fits_inline:
        bodies.append(pack(x, [Box.from_shape(x.shape)], (0, x.size)))
    yield comm.isend_message(frame, bodies, place)


def _send_error(call: _Call, error: SpmdError) -> Iterator[list]:
    """Tells the receiver, which waits for an array, why there is none; then raises here too."""
    frame, bodies, _ = _frame(call.comm, ERROR, encode_error(error))
    yield call.comm.isend_message(frame, bodies, call.place)
    raise error


def _frame(comm: Communicator, kind: int, description: bytes) -> tuple[bytearray, list, int]:
    """A frame with the ``description`` and a number of its own, and what of the description must follow."""
    comm.process.messages += 1
    number = comm.process.messages
    header, late = encode(kind, number.to_bytes(8, "little"), description)
    bodies = [np.frombuffer(late, np.uint8)] if late else []
    return bytearray(header.ljust(MESSAGE_FRAME_BYTES, b"\0")), bodies, number


@lru_cache
def _signature(group: bytes, said: str, x: str, grid: str, where: str) -> bytes:
    """What a sender writes to the end of its frame: what must be equal, and as much of the words as fits."""
    columns = f"{said}{x[:_MOST_SHOWN]}", grid, f" at {where}"
    return group + _BETWEEN.join(columns).encode()[: SIGNATURE_BYTES - len(group)]


def _signed(frame: bytearray) -> list[str]:
    """The words that its sender has written to the end of a frame, in columns: empty outside of checking mode."""
    columns = bytes(frame[FRAME_BYTES + _GROUP_BYTES :]).rstrip(b"\0").decode(errors="replace").split(_BETWEEN)
    return columns + [""] * (3 - len(columns))


def _where(recorder) -> str:
    """The user's line, which a recorder knows of the operation under way.  Local."""
    return call_site() if recorder.is_idle else recorder.where


def _receive_array(call: _Call, out: np.ndarray | None, noted: bool = False) -> Iterator[list]:
    """``noted``: whether a trace is to have it, with the operation under way."""
    comm, frame = call.comm, bytearray(MESSAGE_FRAME_BYTES)
    recorder = comm.process.recorder
    checks = recorder is not None and recorder.check
    where = _where(recorder) if checks else ""
    request = comm.irecv_frame(frame, call.place)
    yield [request]
    kind, length, number = read_prefix(frame)
    if noted and recorder is not None:
        _note(recorder, comm, comm.source_of(request), int.from_bytes(number, "little"))
    body, problem = bytes(frame[PREFIX_BYTES : PREFIX_BYTES + length]), None
    if kind != PLAIN:
        late = np.empty(length, np.uint8)
        yield comm.irecv_body(request, late)
        body = late.tobytes()
    if kind == ERROR:
        raise error_from(body)
    if checks:
        group = frame[FRAME_BYTES : FRAME_BYTES + _GROUP_BYTES]
        if group != call.group and any(group):
            problem = mismatch(in_columns([_signed(frame), (call.said, call.grid, f" at {where}")]))
    facts = decode_facts(body)
    if problem is None and out is not None:
        problem = _misfit(out, facts, frame)
    # The message is taken in any case: its sender may be waiting for that.
    target = np.empty(facts.shape, facts.dtype) if out is None or problem is not None else out
    whole = Box.from_shape(facts.shape)
    incoming, finish = receive_buffer(target, [whole], (0, whole.size))
    if facts.fits_inline:
        incoming[:] = np.frombuffer(frame, np.uint8, facts.nbytes, HEADER_BYTES)
    else:
        yield comm.irecv_body(request, incoming)
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


def _note(recorder, comm: Communicator, sender: int, number: int, place: int | None = None, n_bytes: int = 0) -> None:
    """Notes a member's message for traces: its sender says what goes to ``place``, its receiver waits for that."""
    if not recorder.traces:
        return
    processes = comm.processes
    sent = {} if place in (None, comm.rank) else {processes[place]: n_bytes}
    awaits = (processes[sender],) if place is None else ()
    recorder.moved(_Passed(Traffic(sent, "message", f"message {number} of {processes[sender]}", awaits)))


def _misfit(out, facts: Facts, frame: bytearray) -> OutputError | None:
    """Why ``out`` cannot take the message that ``frame`` announces."""
    try:
        check_output("recv", out, None)
    except OutputError as error:
        return error
    if out.shape == facts.shape and out.dtype == facts.dtype:
        return None
    who, _, where = _signed(frame)
    return OutputError(
        f"recv: out has shape {out.shape} and dtype {out.dtype}; the message has shape {facts.shape} and dtype"
        f" {facts.dtype}{who and f', sent by {who}{where}'}"
    )


send = Send()
recv = Recv()
