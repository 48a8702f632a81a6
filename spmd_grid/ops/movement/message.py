"""Messages that carry one array from one member of a group to another.

A message is a frame (shape, dtype, and small arrays whole) and, for larger arrays, a body.  In checking mode the frame
contains the sender's call as well, which the receiver compares with its own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import lru_cache

import numpy as np

from spmd_grid.errors import OutputError, SpmdError
from spmd_grid.exchange.agreement.header import (
    ERROR,
    PLAIN,
    PREFIX_BYTES,
    Facts,
    decode_facts,
    encode,
    encode_facts,
    read_prefix,
)
from spmd_grid.exchange.agreement.learn_facts import encode_error, error_from
from spmd_grid.exchange.transfer.flat_bytes import pack, receive_buffer
from spmd_grid.grid.box import Box
from spmd_grid.ops.calls.arguments import check_output
from spmd_grid.ops.calls.message_call import MOST_SHOWN, MessageCall
from spmd_grid.transport.communicator import (
    FRAME_BYTES,
    HEADER_BYTES,
    MESSAGE_FRAME_BYTES,
    SIGNATURE_BYTES,
    Communicator,
)
from spmd_grid.transport.mismatch import in_columns, mismatch
from spmd_grid.watch.call_site import Site, call_site
from spmd_grid.watch.recorder import Recorder, shown
from spmd_grid.watch.traffic import Traffic

__all__ = ["receive_array", "send_array", "send_error"]

_GROUP_BYTES = 8
_SEPARATOR = "\x1f"  # between columns of text


def send_array(call: MessageCall, x: np.ndarray, site: Site) -> Iterator[list]:
    """Send ``x`` to the call's peer, in steps that do not wait; ``site``: the line of the program that sends it."""
    comm, facts = call.comm, Facts(x.shape, x.dtype)
    assert call.peer is not None  # only receivers may name any member
    frame, bodies, number = _frame(comm, PLAIN, encode_facts(facts))
    if facts.fits_inline:
        frame[HEADER_BYTES : HEADER_BYTES + facts.nbytes] = x.tobytes()
    recorder = comm.process.recorder
    if recorder is not None:
        _note(recorder, comm, comm.rank, number, call.peer, facts.nbytes)
        if recorder.check:
            signature = _signature(call.group, call.title, shown(x), call.grid, _call_site(recorder))
            frame[FRAME_BYTES : FRAME_BYTES + len(signature)] = signature
    if not facts.fits_inline:
        bodies.append(pack(x, [Box.from_shape(x.shape)], (0, x.size)))
    yield comm.isend_message(frame, bodies, call.peer, (call.text, site))


def send_error(call: MessageCall, error: SpmdError, site: Site) -> Iterator[list]:
    """Send ``error`` in place of an array, so that the receiver raises it; then raise it here too."""
    assert call.peer is not None
    frame, bodies, _ = _frame(call.comm, ERROR, encode_error(error))
    yield call.comm.isend_message(frame, bodies, call.peer, (call.text, site))
    raise error


def _frame(comm: Communicator, kind: int, description: bytes) -> tuple[bytearray, list, int]:
    """Make a numbered frame with ``description``, and the buffer for a description that is too long for the frame."""
    comm.process.messages += 1
    number = comm.process.messages
    header, rest = encode(kind, number.to_bytes(8, "little"), description)
    bodies = [np.frombuffer(rest, np.uint8)] if rest else []
    return bytearray(header.ljust(MESSAGE_FRAME_BYTES, b"\0")), bodies, number


@lru_cache
def _signature(group: bytes, title: str, x: str, grid: str, where: str) -> bytes:
    """The end of a sender's frame: the bytes that must be equal on both sides, and as much of the text as fits."""
    columns = f"{title}{x[:MOST_SHOWN]}", grid, f" at {where}"
    return group + _SEPARATOR.join(columns).encode()[: SIGNATURE_BYTES - len(group)]


def _sender_columns(frame: bytearray) -> list[str]:
    """The columns of text that the sender wrote to the end of the frame; empty outside of checking mode."""
    columns = bytes(frame[FRAME_BYTES + _GROUP_BYTES :]).rstrip(b"\0").decode(errors="replace").split(_SEPARATOR)
    return columns + [""] * (3 - len(columns))


def _call_site(recorder: Recorder) -> str:
    """The call site of the operation under way, which the recorder may know already.  Local."""
    return call_site() if recorder.is_idle else recorder.where


def receive_array(call: MessageCall, out: np.ndarray | None, traced: bool = False) -> Generator[list, None, np.ndarray]:
    """Receive an array from the call's peer, in steps that do not wait.

    ``traced``: whether traces show the message with the operation under way.
    """
    comm, frame = call.comm, bytearray(MESSAGE_FRAME_BYTES)
    recorder = comm.process.recorder
    checks = recorder is not None and recorder.check
    where = "" if recorder is None or not checks else _call_site(recorder)
    request = comm.irecv_frame(frame, call.peer)
    yield [request]
    kind, length, number = read_prefix(frame)
    if traced and recorder is not None:
        _note(recorder, comm, comm.source_of(request), int.from_bytes(number, "little"))
    body = bytes(frame[PREFIX_BYTES : PREFIX_BYTES + length])
    problem: SpmdError | None = None
    if kind != PLAIN:
        rest = np.empty(length, np.uint8)
        yield comm.irecv_body(request, rest)
        body = rest.tobytes()
    if kind == ERROR:
        raise error_from(body)
    if checks:
        group = frame[FRAME_BYTES : FRAME_BYTES + _GROUP_BYTES]
        if group != call.group and any(group):
            problem = mismatch(in_columns([_sender_columns(frame), (call.title, call.grid, f" at {where}")]))
    facts = decode_facts(body)
    assert facts.shape is not None and facts.dtype is not None
    if problem is None and out is not None:
        problem = _misfit(out, facts, frame)
    # The message is received in any case: its sender may be waiting for that.
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


def _note(
    recorder: Recorder, comm: Communicator, sender: int, number: int, receiver: int | None = None, n_bytes: int = 0
) -> None:
    """Note a message for traces: its sender names the ``receiver`` and the bytes; its receiver waits for the sender."""
    if not recorder.traces:
        return
    processes = comm.processes
    sent = {} if receiver in (None, comm.rank) else {processes[receiver]: n_bytes}
    awaits = (processes[sender],) if receiver is None else ()
    recorder.moved(Traffic(sent, "message", f"message {number} of {processes[sender]}", awaits))


def _misfit(out: np.ndarray, facts: Facts, frame: bytearray) -> OutputError | None:
    """The error that ``out`` does not fit the message; None if it does."""
    try:
        check_output("recv", out, None)
    except OutputError as error:
        return error
    if out.shape == facts.shape and out.dtype == facts.dtype:
        return None
    sender, _, where = _sender_columns(frame)
    return OutputError(
        f"recv: out has shape {out.shape} and dtype {out.dtype}; the message has shape {facts.shape} and dtype"
        f" {facts.dtype}{sender and f', sent by {sender}{where}'}"
    )
