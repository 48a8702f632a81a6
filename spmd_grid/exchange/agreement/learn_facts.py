"""The opening of every collective: all members learn all members' facts, or all raise the same error.

After `learn_facts` every member has seen the same headers and decides alike.  Three things end it with an error on
every member: a member cannot take part (its array or ``out`` is invalid), members are in different operations, or
they pass different arguments to the same one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from spmd_grid.errors import NAMED_ERRORS, SpmdError
from spmd_grid.exchange.agreement.frame_swap import swap_in_frame
from spmd_grid.exchange.agreement.header import ERROR, LONG, PLAIN, PREFIX_BYTES, Facts, decode_facts, read_prefix
from spmd_grid.transport.communicator import HEADER_BYTES, Communicator, Frames
from spmd_grid.transport.mismatch import in_columns, mismatch

__all__ = ["encode_error", "error_from", "learn_facts", "swap_texts"]

# The classes of errors that a process may name to others: no name in a message is looked up anywhere else.
_OF_PYTHON: tuple[type[Exception], ...] = (
    *(ArithmeticError, AssertionError, AttributeError, FloatingPointError, IndexError, KeyError, LookupError),
    *(MemoryError, NotImplementedError, OSError, OverflowError, RecursionError, RuntimeError, TypeError, ValueError),
    *(ZeroDivisionError, Warning, DeprecationWarning, FutureWarning, RuntimeWarning, UserWarning),
    *(np.exceptions.ComplexWarning, np.linalg.LinAlgError),
)
_KINDS: dict[str, type[Exception]] = {each.__name__: each for each in _OF_PYTHON} | NAMED_ERRORS


def learn_facts(comm: Communicator, frames: Frames, body: bytes, describe: Callable[[], Sequence[str]]) -> list[Facts]:
    """The facts of all members, in member order.

    ``body``: the bytes that this member's header announced for a second round.  ``describe()``: the columns of this
    member's line in a table of mismatched calls: process, call, grid, path and call site.  Collective over the members
    that swapped ``frames``; raises the same error on all of them.
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


def encode_error(error: Exception, where: str = "") -> bytes:
    """Bytes from which other processes make the same error, or one of the nearest class that has a name here.

    ``where`` is added to its text.
    """
    found = type(error)
    kind = next((each for each in found.__mro__ if _KINDS.get(each.__name__) is each), SpmdError)
    shown = f"{error}" if kind is found else f"{found.__name__}: {error}"
    return f"{kind.__name__}\n{shown}{where}".encode(errors="backslashreplace")


def error_from(text: bytes) -> Exception:
    """The error from which `encode_error` made these bytes; all members make it."""
    name, _, message = text.decode().partition("\n")
    error = _KINDS.get(name, SpmdError)(message)
    error.is_agreed = True  # type: ignore[attr-defined]  # for the gate
    return error


def _raise_mismatch(comm: Communicator, columns: Sequence[str]) -> NoReturn:
    """Swaps descriptions of all members' calls and raises the same table of them on every member.  Collective."""
    raise mismatch(in_columns([json.loads(text) for text in swap_texts(comm, json.dumps(columns).encode())]))


def swap_texts(comm: Communicator, mine: bytes) -> list[bytes]:
    """The bytes of all members, of any length.  Collective."""
    lengths = [int.from_bytes(each, "little") for each in swap_in_frame(comm, len(mine).to_bytes(8, "little"))]
    return _all_gather_bytes(comm, mine, lengths)


def _all_gather_bytes(comm: Communicator, mine: bytes, lengths: list[int]) -> list[bytes]:
    received = np.empty(sum(lengths), np.uint8)
    comm.all_gather(np.frombuffer(mine, np.uint8), received, lengths)
    whole, start, parts = received.tobytes(), 0, []
    for n in lengths:
        parts.append(whole[start : start + n])
        start += n
    return parts
