"""The opening of every collective: all members learn all members' facts, or all raise the same error.

After `agree` every member has seen the same headers and decides alike.  Three things end it with an error on every
member: one of them cannot take part (its array or ``out`` will not do), they are in different operations, or they
pass different arguments to the same one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np

from spmd_grid import errors
from spmd_grid.errors import SpmdError
from spmd_grid.exchange.agreement.header import ERROR, LONG, PLAIN, PREFIX_BYTES, Facts, decode_facts, read_prefix
from spmd_grid.transport.communicator import FRAME_BYTES, HEADER_BYTES, Communicator, Frames
from spmd_grid.transport.mismatch import in_columns, mismatch

__all__ = ["encode_error", "error_from", "learn_facts", "swap_texts"]


def learn_facts(comm: Communicator, frames: Frames, body: bytes, describe: Callable[[], Sequence[str]]) -> list[Facts]:
    """The facts of all members, in member order.

    ``body`` is what this member's header announced for a second round; ``describe`` says who is in which call, on
    which grid, by which path, and where: the columns of a line in a table.  Collective over those who swapped
    ``frames``; raises the same error on all of them.
    """
    headers = [frames.headers[i * HEADER_BYTES : (i + 1) * HEADER_BYTES] for i in range(comm.size)]
    prefixes = {header: read_prefix(header) for header in set(headers)}  # most often all are equal
    if len({call for _, _, call in prefixes.values()}) > 1:
        _raise_mismatch(comm, describe())
    if all(kind == PLAIN for kind, _, _ in prefixes.values()):
        facts = {
            header: decode_facts(header[PREFIX_BYTES : PREFIX_BYTES + n]) for header, (_, n, _) in prefixes.items()
        }
        return [facts[header] for header in headers]
    members = [prefixes[header] for header in headers]
    late = _all_gather_bytes(comm, body, [0 if kind == PLAIN else n for kind, n, _ in members])
    for text, (kind, _, _) in zip(late, members):
        if kind == ERROR:
            raise error_from(text)
    return [
        decode_facts(text if kind == LONG else header[PREFIX_BYTES : PREFIX_BYTES + n])
        for text, header, (kind, n, _) in zip(late, headers, members)
    ]


def encode_error(error: SpmdError) -> bytes:
    """An error as bytes that become the same error elsewhere."""
    return f"{type(error).__name__}\n{error}".encode()


def error_from(text: bytes) -> SpmdError:
    """The error that `encode_error` made these bytes of."""
    name, _, message = text.decode().partition("\n")
    return getattr(errors, name)(message)


def _raise_mismatch(comm: Communicator, said: Sequence[str]) -> None:
    """Another round for what everybody is doing, in words; then the same table on every member."""
    raise mismatch(in_columns([json.loads(text) for text in swap_texts(comm, json.dumps(said).encode())]))


def swap_texts(comm: Communicator, mine: bytes) -> list[bytes]:
    """Everybody's bytes, of any length.  Collective."""
    comm.frame[8:16] = len(mine).to_bytes(8, "little")
    data = comm.swap_frames().data
    starts = range(8, comm.size * FRAME_BYTES, FRAME_BYTES)
    lengths = [int.from_bytes(data[start : start + 8], "little") for start in starts]
    return _all_gather_bytes(comm, mine, lengths)


def _all_gather_bytes(comm: Communicator, mine: bytes, lengths: list[int]) -> list[bytes]:
    received = np.empty(sum(lengths), np.uint8)
    comm.all_gather(np.frombuffer(mine, np.uint8), received, lengths)
    whole, start, parts = received.tobytes(), 0, []
    for n in lengths:
        parts.append(whole[start : start + n])
        start += n
    return parts
