"""The arrays that a plan has seen: their calls of the compiled course, found by identity.

An identity belongs to one array only while it lives, so a call is forgotten when one of its arrays dies.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence

import numpy as np

from spmd_grid.exchange.channel.calls import ChannelCall
from spmd_grid.halo.plan.field_checks import Field
from spmd_grid.kernels.protocol import slots as at

__all__ = ["KeptCalls", "key_of"]

# With more calls than this, all are forgotten.
_MOST_CALLS = 128


def key_of(fields: tuple[Field, ...]) -> Hashable:
    """The identity of these fields, as long as they live.  Local."""
    return id(fields[0]) if len(fields) == 1 else tuple(map(id, fields))


class KeptCalls:
    """Calls by the identity of their fields.  A hot update only looks into ``addresses``, or into ``table``.

    ``table`` has some of them for compiled code (``FIELDS_KNOWN`` in kernels/protocol/slots.py).
    """

    def __init__(self, n_fields: int) -> None:
        self.addresses: dict[Hashable, int] = {}
        self.table = np.zeros((at.MOST_KNOWN, 1 + n_fields), np.int64)
        self._turn = 0
        self._kept: dict[Hashable, _Kept] = {}

    def keep(self, key: Hashable, fields: tuple[Field, ...], call: ChannelCall) -> int:
        """Keeps the call until one of the fields dies; its address.  Local."""
        if len(self._kept) >= _MOST_CALLS:
            self.clear()
        forget = _Forget(self, key)
        self._kept[key] = _Kept(call, [weakref.ref(field, forget) for field in fields])
        self.addresses[key] = call.address
        row = self.table[self._turn % at.MOST_KNOWN]
        self._turn += 1
        row[0] = 0
        row[1:] = [id(field) for field in fields]
        row[0] = call.address
        return call.address

    def call_of(self, key: Hashable) -> ChannelCall:
        """The call itself, to be kept alive.  Local."""
        return self._kept[key].call

    def forget(self, key: Hashable) -> None:
        """Forgets the call of ``key``, if there is one.  Local."""
        address = self.addresses.pop(key, None)
        if address is not None:
            self.table[self.table[:, 0] == address] = 0
        self._kept.pop(key, None)

    def clear(self) -> None:
        """Forgets all calls.  Local."""
        self.addresses.clear()
        self.table[:] = 0
        self._kept.clear()

    def leave_out_unchanged(self, key: Hashable, fields: Sequence[Field], confirmed: range) -> None:
        """Marks the fields that need not be sent: unchanged since one of the exchanges ``confirmed`` sent them."""
        kept, bits = self._kept[key], 0
        for f, field in enumerate(fields):
            version, epoch = kept.sent.get(f, (None, 0))
            if version is not None and version == getattr(field, "_version", None):
                if epoch in confirmed:
                    bits |= 1 << f
                elif epoch < confirmed.start:  # a neighbour missed it
                    del kept.sent[f]
        kept.call.words[at.CALL_UNCHANGED] = bits

    def note_sent(self, key: Hashable, fields: Sequence[Field], epoch: int) -> None:
        """Notes that exchange ``epoch`` has sent the fields; the first exchange that sent a version counts."""
        kept = self._kept[key]
        kept.call.words[at.CALL_UNCHANGED] = 0
        for f, field in enumerate(fields):
            version = getattr(field, "_version", None)
            if kept.sent.get(f, (None, 0))[0] != version:
                kept.sent[f] = version, epoch

    def forget_sent(self, key: Hashable) -> None:
        """Forgets which versions neighbours have: an exchange failed."""
        if key in self._kept:
            self._kept[key].call.words[at.CALL_UNCHANGED] = 0
            self._kept[key].sent.clear()


class _Kept:
    __slots__ = ("call", "fields", "sent")

    def __init__(self, call: ChannelCall, fields: list[weakref.ref]):
        self.call = call
        self.fields = fields
        self.sent: dict[int, tuple[int | None, int]] = {}  # by field: version, and the exchange that sent it first


class _Forget:
    """The callback of a dying array: forgets its call, before another array can have its identity."""

    __slots__ = ("_calls", "_key")

    def __init__(self, calls: KeptCalls, key: Hashable):
        self._calls, self._key = weakref.ref(calls), key

    def __call__(self, _: weakref.ref) -> None:
        calls = self._calls()
        if calls is not None:
            calls.forget(self._key)
