"""The arrays that a plan has seen: what the compiled course knows of them, found by their identity.

An identity is that of one array only while it lives, so each end of an array is noticed and its call forgotten.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from spmd_grid.exchange.channel.calls import ChannelCall
from spmd_grid.kernels.protocol import slots as at

__all__ = ["KeptCalls", "key_of"]

# More calls than this make a fresh start.
_MOST_CALLS = 128


def key_of(fields: tuple) -> Any:
    """The identity of these fields, as long as they live.  Local."""
    return id(fields[0]) if len(fields) == 1 else tuple(map(id, fields))


class KeptCalls:
    """Calls by the identity of their fields; ``addresses`` is what a hot update looks into."""

    def __init__(self):
        self.addresses: dict[Any, int] = {}
        self._kept: dict[Any, _Kept] = {}

    def keep(self, key: Any, fields: tuple, call: ChannelCall) -> int:
        """Keeps the call until one of the fields dies; its address.  Local."""
        if len(self._kept) >= _MOST_CALLS:
            self.clear()
        forget = _Forget(self, key)
        self._kept[key] = _Kept(call, [weakref.ref(field, forget) for field in fields])
        self.addresses[key] = call.address
        return call.address

    def call_of(self, key: Any) -> ChannelCall:
        """The call itself, for who has to keep it.  Local."""
        return self._kept[key].call

    def forget(self, key: Any) -> None:
        self.addresses.pop(key, None)
        self._kept.pop(key, None)

    def clear(self) -> None:
        self.addresses.clear()
        self._kept.clear()

    def leave_out_unchanged(self, key: Any, fields: Sequence, confirmed: range) -> None:
        """Marks the fields that need not be sent: as they were when sent in one of the exchanges ``confirmed``."""
        kept, bits = self._kept[key], 0
        for f, field in enumerate(fields):
            version, epoch = kept.sent.get(f, (None, 0))
            if version is not None and version == getattr(field, "_version", None):
                if epoch in confirmed:
                    bits |= 1 << f
                elif epoch < confirmed.start:  # somebody missed it
                    del kept.sent[f]
        kept.call.words[at.CALL_UNCHANGED] = bits

    def note_sent(self, key: Any, fields: Sequence, epoch: int) -> None:
        """The fields have gone out in exchange ``epoch``; a version counts from the first time it went."""
        kept = self._kept[key]
        kept.call.words[at.CALL_UNCHANGED] = 0
        for f, field in enumerate(fields):
            version = getattr(field, "_version", None)
            if kept.sent.get(f, (None, 0))[0] != version:
                kept.sent[f] = version, epoch

    def forget_sent(self, key: Any) -> None:
        """Who has what is not known any more."""
        if key in self._kept:
            self._kept[key].call.words[at.CALL_UNCHANGED] = 0
            self._kept[key].sent.clear()


class _Kept:
    __slots__ = ("call", "fields", "sent")

    def __init__(self, call: ChannelCall, fields: list[weakref.ref]):
        self.call = call
        self.fields = fields
        self.sent: dict[int, tuple[int | None, int]] = {}  # by field: version, and the exchange that took it first


class _Forget:
    """Called when an array dies: its call goes, before another array can have its identity."""

    __slots__ = ("_calls", "_key")

    def __init__(self, calls: KeptCalls, key: Any):
        self._calls, self._key = weakref.ref(calls), key

    def __call__(self, _) -> None:
        calls = self._calls()
        if calls is not None:
            calls.forget(self._key)
