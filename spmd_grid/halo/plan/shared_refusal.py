"""One error on all processes that a refused exchange connects, whatever mistakes they have made.

A process that refuses tells those that take cells from it, so that each knows of the refusals beside it, and both ends
know which pairs have one.  Along these pairs the processes pass on what they know, in rounds, until they know of all
that are connected so; all others have had no part in a refusal, and do not wait.  (R: refuses; -: passes on)

    0 R - 1 - 2 R - 3   4      all but 4 raise the error of 0
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from spmd_grid.errors import SpmdError
from spmd_grid.exchange.agreement.learn_facts import encode_error, error_from
from spmd_grid.exchange.channel.channel import Channel
from spmd_grid.transport.communicator import Communicator, tag_of

__all__ = ["ON_RANK", "shared_refusal", "shortened"]

ON_RANK = " (on rank "  # begins the name of the process that an error comes from

_IS_LAST, _CULPRIT, _ALIKE, _ALL_REFUSE, _LENGTH = range(5)
_HEAD_BYTES = 40
_NO_RANK = 1 << 62
_TEXT_BYTES = 1024  # of an encoded error
_MOST_TEXT = _TEXT_BYTES - 64  # the rest is for the name of the error


def shared_refusal(channel: Channel, own: SpmdError | None) -> Generator[list[Any], None, SpmdError]:
    """The error that all processes raise which the last exchange of ``channel`` connects through refusals.

    Collective over these; ``own``: the error with which this process has refused it.  It is that of the lowest rank
    that has one; without a name if all of them refuse for the same reason.
    """
    comm, tag = channel.comm, tag_of("refusals of channels", channel.number)
    partners = sorted({*channel.refusers(), *(channel.gives if own else ())})
    known = _Known(comm, own, partners)
    while partners:
        message, is_last = known.message, known.is_complete
        message[:8].view(np.int64)[_IS_LAST] = is_last
        received = {member: np.empty_like(message) for member in partners}
        requests: list[Any] = []
        for member, buffer in received.items():
            requests += comm.irecv(buffer, member, tag)
        for member in partners:
            requests += comm.isend(message, member, tag)
        yield requests
        for buffer in received.values():
            known.learn(_Known.of_message(comm, buffer))
        # Both ends of a pair know whether one of them has told all.
        partners = [] if is_last else [m for m, buffer in received.items() if not buffer[:8].view(np.int64)[_IS_LAST]]
    return known.error


class _Known:
    """The knowledge of a process about those that are connected with it.

    ``met``: the members that it knows of; ``heard``: those whose partners it knows too.
    """

    def __init__(self, comm: Communicator, own: SpmdError | None, partners: Sequence[int]):
        self.culprit = _NO_RANK if own is None else comm.processes[comm.rank]
        self.text = b"" if own is None else encode_error(own)
        self.are_alike, self.all_refuse = True, own is not None
        self.met, self.heard = (np.zeros(comm.size, np.uint8) for _ in range(2))
        self.met[[comm.rank, *partners]] = self.heard[comm.rank] = 1

    @classmethod
    def of_message(cls, comm: Communicator, message: np.ndarray) -> _Known:
        """The knowledge of the sender of ``message``."""
        known = cls(comm, None, ())
        words = message[:_HEAD_BYTES].view(np.int64).tolist()
        known.culprit = words[_CULPRIT]
        known.are_alike, known.all_refuse = bool(words[_ALIKE]), bool(words[_ALL_REFUSE])
        known.text = message[_HEAD_BYTES : _HEAD_BYTES + words[_LENGTH]].tobytes()
        known.met, known.heard = message[_HEAD_BYTES + _TEXT_BYTES :].reshape(2, comm.size)
        return known

    @property
    def message(self) -> np.ndarray:
        """The bytes that tell it to others, equally many on all."""
        message = np.zeros(_HEAD_BYTES + _TEXT_BYTES + 2 * len(self.met), np.uint8)
        words = 0, self.culprit, self.are_alike, self.all_refuse, len(self.text)
        message[:_HEAD_BYTES].view(np.int64)[:] = words
        message[_HEAD_BYTES : _HEAD_BYTES + len(self.text)] = np.frombuffer(self.text, np.uint8)
        message[_HEAD_BYTES + _TEXT_BYTES :] = np.concatenate([self.met, self.heard])
        return message

    @property
    def is_complete(self) -> bool:
        """Whether it knows of all that are connected."""
        return bool((self.met == self.heard).all())

    def learn(self, other: _Known) -> None:
        """Take in what another one knows."""
        if self.text and other.text:
            self.are_alike &= _unnamed(self.text) == _unnamed(other.text)
        self.are_alike &= other.are_alike
        self.all_refuse &= other.all_refuse
        if other.culprit < self.culprit:
            self.culprit, self.text = other.culprit, other.text
        self.met, self.heard = self.met | other.met, self.heard | other.heard

    @property
    def error(self) -> SpmdError:
        """The error to raise."""
        is_of_all = self.all_refuse and self.are_alike and self.met.sum() > 1
        error = error_from(_unnamed(self.text) if is_of_all else self.text)
        return error if isinstance(error, SpmdError) else SpmdError(str(error))


def _unnamed(text: bytes) -> bytes:
    """An encoded error without the name of the process that it comes from."""
    return text.rpartition(ON_RANK.encode())[0]


def shortened(text: str) -> str:
    """``text``, without its middle where it is too long for a refusal.

    >>> shortened("x" * 2000) == "x" * 450 + " ... " + "x" * 450
    True
    """
    if len(text.encode()) <= _MOST_TEXT:
        return text
    keep = 450
    while len(f"{text[:keep]} ... {text[-keep:]}".encode()) > _MOST_TEXT:
        keep -= 25
    return f"{text[:keep]} ... {text[-keep:]}"
