"""Updates that have been started: every wait of this process advances them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spmd_grid.exchange.channel.calls import ChannelCall
from spmd_grid.exchange.channel.channel import Channel
from spmd_grid.exchange.requests import Request
from spmd_grid.halo.plan.field_checks import Field
from spmd_grid.halo.plan.shared_refusal import shared_refusal
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.transport.communicator import Activity, Process

__all__ = ["UnderWay"]


class UnderWay:
    """One of the started operations of its process, until there is nothing left to wait for.

    It keeps the fields and their call alive, even when the plan is dropped: neighbours may still read them.
    """

    def __init__(self, channel: Channel, fields: tuple[Field, ...], call: ChannelCall, activity: Activity):
        self.fields = fields
        self.call = call
        self.refusal: Request | None = None  # which ends with the error to raise
        self._activity, self._has_ended = activity, False
        self._channel = channel
        self._code = at.FINE
        self._pending = channel.comm.process.pending
        self._pending.append(self)
        channel.hold(True)

    @property
    def done(self) -> bool:
        """Whether `finish`, and the end of a refusal, need not wait.  Local."""
        return self._has_ended and (self.refusal is None or self.refusal.has_result)

    @property
    def process(self) -> Process:
        """The process that has started it.  Local."""
        return self._channel.comm.process

    @property
    def requests(self) -> Sequence[Any]:
        """The requests it waits for.  Local."""
        return self._channel.waits()

    def advance(self) -> None:
        """Copies the received cells once all are here, and ends when no neighbour reads the fields any more.  Local."""
        channel = self._channel
        if channel.phase == at.BEGUN and channel.run(at.POKE) == 1:
            self._code = channel.run(at.ARRIVE | at.LAND | at.LEAVE)
        if channel.phase == at.LEFT and channel.run(at.POKE) == 1:
            self._end(channel.run(at.PART))

    def finish(self) -> int:
        """Waits for the end; the code with which it ended.  Collective, as the update is."""
        self._channel.hold(False)
        if not self._has_ended:
            self._pending.remove(self)
            self._end(self._channel.run(at.FINISH))
        return self._code

    def _end(self, code: int) -> None:
        self._code = code or self._code
        self._has_ended = True
        if self in self._pending:
            self._pending.remove(self)
        if self._code == at.REFUSED_BY:
            self.refusal = Request(self._channel.comm, shared_refusal(self._channel, None), self._activity)
