"""The calls of a channel: descriptions of arrays for its compiled course, and the copy tables that calls share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spmd_grid import kernels
from spmd_grid.exchange.channel.copy_table import ChannelParts, ExchangeCells, c_strides, table_rows
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import LARGEST_MESSAGE
from spmd_grid.transport.wire import RequestHandles, Straight
from spmd_grid.typing import Shape

__all__ = ["ChannelCall", "bare_call", "call_for"]

_MOST_TABLES = 64


class ChannelCall(NamedTuple):
    """A description of certain arrays for the compiled course, at ``address``; the rest is kept alive for it."""

    address: int
    words: np.ndarray
    table: np.ndarray
    table_bytes: int
    shapes: list[np.ndarray]
    requests: RequestHandles | None


def bare_call(channel: ChannelParts) -> ChannelCall:
    """A call without arrays: compiled loops fill in theirs, and a process that refuses has none.  Local."""
    nothing: list[np.ndarray | None] = [None] * len(channel.dtypes)
    call = call_for(channel, nothing, nothing)
    for f, dtype in enumerate(channel.dtypes):
        call.words[at.CALL_FIELDS + f * at.FIELD_WORDS + at.F_DTYPE] = at.dtype_word(dtype)
    return call


def call_for(
    channel: ChannelParts,
    fields: Sequence[np.ndarray | None],
    into: Sequence[np.ndarray | None] | None = None,
    in_rounds: bool = False,
    straight: bool = False,
) -> ChannelCall:
    """As `Channel.call`; ``straight``: messages are sent straight from the arrays, where possible.  Local."""
    arena, same = channel.comm.process.arena, into is None
    into = fields if into is None else into
    lent = [same or x is None or not np.may_share_memory(x, y) for x, y in zip(fields, into, strict=True)]
    sides = _strides(fields, channel.shape, channel.dtypes), _strides(into, channel.into_shape, channel.dtypes)
    table, table_bytes = _table(channel, *sides, in_rounds)
    call = np.zeros(at.CALL_FIELDS + at.FIELD_WORDS * len(fields), np.int64)
    call[at.CALL_TABLE], call[at.CALL_COLUMNS] = kernels.address_of(table), table.shape[1]
    shapes: list[np.ndarray] = []
    for f, (x, y) in enumerate(zip(fields, into)):
        word = at.CALL_FIELDS + f * at.FIELD_WORDS
        if x is None or y is None:
            call[word + at.F_OFFSET] = -1
            continue
        call[word + at.F_ADDRESS] = address = kernels.address_of(x)
        call[word + at.F_INTO] = address if same else kernels.address_of(y)
        readable = lent[f] and x.flags.c_contiguous
        call[word + at.F_OFFSET] = arena.offset_of(address, x.nbytes) if readable else -1
        if same and kernels.FIELDS_OFFSET:
            shapes.append(np.array([*x.shape, *x.strides, 0], np.int64))
            call[word + at.F_OBJECT], call[word + at.F_DTYPE] = id(x), id(x.dtype)
            call[word + at.F_SHAPE] = kernels.address_of(shapes[-1])
    requests = _straight(channel, fields) if straight and all(lent) else None
    if requests is not None:
        call[at.CALL_REQUESTS], call[at.CALL_COUNT] = requests.address, requests.count
    return ChannelCall(kernels.address_of(call), call, table, table_bytes, shapes, requests)


def _table(channel: ChannelParts, given: tuple, taking: tuple, in_rounds: bool) -> tuple[np.ndarray, int]:
    """The copy table for arrays of these strides, with those of all rounds in a row; number of bytes of each."""
    found = channel.tables.get((given, taking, in_rounds))
    if found is None:
        if len(channel.tables) > _MOST_TABLES:
            channel.tables.clear()
        rounds = list(channel.rounds) if in_rounds else [ExchangeCells(channel.gives, channel.takes, channel.own)]
        table = kernels.build_table([row for each in rounds for row in table_rows(channel, each, given, taking)])
        found = channel.tables[given, taking, in_rounds] = table, table.nbytes // len(rounds)
    return found


def _straight(channel: ChannelParts, fields: Sequence[np.ndarray | None]) -> RequestHandles | None:
    """Requests that send straight from ``fields``; None where a field is unknown or a message too large."""
    arrays = [x for x in fields if x is not None]
    if len(arrays) < len(fields) or any(len(each) > LARGEST_MESSAGE for each in channel.outgoing.values()):
        return None
    messages = []
    for member, buffer in channel.outgoing.items():
        cells = [
            (kernels.address_of(x) + each.offset(x.strides), each.shape, each.strides(x.strides), x.itemsize)
            for x in arrays
            for each in channel.gives[member]
        ]
        messages.append(Straight(member, buffer[: at.MESSAGE_HEAD], cells))
    return channel.wire.straight_sends(messages)


def _strides(fields: Sequence[np.ndarray | None], shape: Shape, dtypes: Sequence[np.dtype]) -> tuple:
    """The strides of each field; for one that is unknown, those of a C-contiguous array."""
    return tuple(
        c_strides(shape, dtype.itemsize) if x is None else x.strides for x, dtype in zip(fields, dtypes, strict=True)
    )
