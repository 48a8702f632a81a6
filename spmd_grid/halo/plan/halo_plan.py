"""A halo plan: made once for a layout, then run at the price of a few words per neighbour and the bytes.

The pattern says which cells come from which device, the channel moves them.  The plan connects the two: it finds the
call of the arrays it is given, and an array that it refuses is refused by every process that waits for its cells.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import NoReturn

import numpy as np

from spmd_grid.errors import RequestError, SpmdError, TransportError
from spmd_grid.exchange.channel.channel import Channel, close_retired
from spmd_grid.exchange.paths import PACKED, READ, STAGED, STRAIGHT
from spmd_grid.exchange.requests import closed_plan, drive
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.halo.plan.accumulate import Reverse, check_addable
from spmd_grid.halo.plan.channels import PlanChannels
from spmd_grid.halo.plan.field_checks import Field, FieldChecks
from spmd_grid.halo.plan.follow_ups import BoundaryFunctions, FollowUp, FreshnessNotes, fills_all
from spmd_grid.halo.plan.kept_calls import KeptCalls, key_of
from spmd_grid.halo.plan.shared_refusal import ON_RANK, shared_refusal, shortened
from spmd_grid.halo.plan.specification import HaloSpecification, agree
from spmd_grid.halo.plan.trial import try_ways
from spmd_grid.halo.plan.under_way import UnderWay
from spmd_grid.kernels.protocol import slots as at

__all__ = ["HaloPlan", "PlanActivity"]


class PlanActivity:
    """Something that is done with a plan, as reports describe it."""

    def __init__(self, text: str):
        self._text = text

    def describe(self) -> str:
        return self._text


class HaloPlan:
    """One process's part of a halo plan.  Its operations run inside the gate: `HaloExchange` takes programs through.

    Collective over ``axes``, where the specification is compared.  Errors as of `HaloExchange`.
    """

    def __init__(self, grid: ProcessGrid, axes: tuple[int, ...], asked: HaloSpecification, name: str | None = None):
        self.grid, self.axes, self.name, self.gate = grid, axes, name, grid.process.gate
        self.pattern, self.dtypes, path = agree(grid, axes, asked)
        self.layout = self.pattern.layout
        self._activity = PlanActivity(f"HaloExchange of {self.title}")
        self.channels = PlanChannels(grid, axes, self.pattern, self.dtypes, path, self._activity)
        self.channel = self.channels.forward()
        self.trial = self._choose(path)
        self.edges = [(edge.function, edge.box.slices()) for edge in self.pattern.edges(self.channels.coords)]
        self.follow_ups: list[FollowUp] = [BoundaryFunctions(self.gate, self.edges)] if self.edges else []
        self._notes = FreshnessNotes(self.follow_ups) if fills_all(self.pattern) else None
        self.reverse: Reverse | None = None
        self.flight: UnderWay | None = None
        self.is_closed = self._is_broken = False
        self._checks = FieldChecks(self.layout, self.channels.local_shape, self.dtypes)
        self._calls = KeptCalls(len(self.dtypes))
        self._addresses = self._calls.addresses
        self.state = self.channel.address

    @property
    def title(self) -> str:
        """The plan's name, or else its layout."""
        return self.name or str(self.layout)

    @cached_property
    def text(self) -> str:
        """The plan's layout and name, by which processes compare it."""
        return f"{self.layout}{f' {self.name}' if self.name else ''}"

    def _choose(self, path: str) -> dict[str, float]:
        """Sets how cells travel; seconds per update of the ways that were tried.  Collective over the axes."""
        channel = self.channel
        if path in (READ, STAGED, PACKED, STRAIGHT):
            channel.choose(path)
        elif channel.wire.times_well and channel.comm.size > 1:
            try:
                return try_ways(channel)
            except BaseException:
                channel.retire()
                raise
        return {}

    @property
    def known_fields(self) -> np.ndarray:
        """The calls of fields that have been updated, for compiled code.  Local."""
        return self._calls.table

    # -- operations ----------------------------------------------------------------------------------------------

    def update(self, fields: tuple[Field, ...], only_dirty: bool) -> None:
        """As `HaloExchange.update`, but for follow-ups."""
        key = id(fields[0]) if len(fields) == 1 else tuple(map(id, fields))
        call = self._addresses.get(key) or self._prepare("HaloExchange.update", key, fields)
        if only_dirty:
            self._calls.leave_out_unchanged(key, fields, self.channel.confirmed)
        code = _run_course(at.UPDATE, self.state, call)
        if code or only_dirty:
            self._finish_update(code, key, fields, only_dirty)

    def _finish_update(self, code: int, key: Hashable, fields: tuple[Field, ...], only_dirty: bool) -> None:
        """The rest of an update that ended with a code other than FINE, or noted what was sent."""
        if code == at.ARRAY_CHANGED or (code == at.TAKEN and self.channel.hand_over()):
            self._calls.forget(key)  # an array is not what it was in its last update: it has to be checked again
            HaloPlan.update(self, fields, only_dirty)
            return
        if code:
            if only_dirty:
                self._calls.forget_sent(key)
            self.raise_code("HaloExchange.update", code)
        self._calls.note_sent(key, fields, self.channel.epoch)

    def start(self, fields: tuple[Field, ...]) -> None:
        """As `HaloExchange.start`."""
        operation = "HaloExchange.start"
        self.check_idle(operation)
        key = key_of(fields)
        call = self._addresses.get(key) or self._prepare(operation, key, fields)
        code = _run_course(at.BEGIN, self.state, call)
        if code == at.ARRAY_CHANGED:
            self._calls.forget(key)
            code = _run_course(at.BEGIN, self.state, self._prepare(operation, key, fields))
        if code:
            self.raise_code(operation, code)
        self.flight = UnderWay(self.channel, fields, self._calls.call_of(key), self._activity)
        self.channel.comm.process.progress()

    def wait(self) -> tuple[Field, ...]:
        """As `HaloExchange.wait`, but for follow-ups; the fields that were updated."""
        flight = self._check_under_way("HaloExchange.wait")
        self.flight = None
        code = flight.finish()
        if flight.refusal is not None:
            raise flight.refusal.take_in_gate()
        if code:
            self.raise_code("HaloExchange.wait", code)
        return flight.fields

    def end_update(self) -> None:
        """As `HaloExchange.wait`."""
        fields = self.wait()
        if self.follow_ups:
            self.follow_up(fields, False)

    def poke(self) -> bool:
        """As `HaloExchange.poke`."""
        flight = self._check_under_way("HaloExchange.poke")
        comm = self.channel.comm
        comm.process.progress()
        if not flight.done:
            comm.give_way()
        return flight.done

    def accumulate(self, fields: tuple[Field, ...]) -> None:
        """As `HaloExchange.accumulate`."""
        self.check_idle("HaloExchange.accumulate")
        if self.reverse is None:
            self.reverse = Reverse(self.channels)
        channel = self.reverse.channel
        try:
            arrays = self._checks.local_arrays(fields)
            check_addable(arrays)
            call = channel.call(arrays)
        except (SpmdError, MemoryError) as error:
            raise self.refuse("HaloExchange.accumulate", error, channel) from None
        code = self.reverse.run(arrays, call)
        if code:
            self.raise_code("HaloExchange.accumulate", code, channel)
        for field in fields:
            if not isinstance(field, np.ndarray):
                field.mark_dirty()

    def follow_up(self, fields: tuple[Field, ...], only_dirty: bool) -> None:
        """Do what is left to do after an update of ``fields``, for which no neighbour waits.  Local."""
        for each in tuple(self.follow_ups):
            each.run(fields, only_dirty)

    def close(self) -> None:
        """As `HaloExchange.close`."""
        if self.flight is not None:
            raise RequestError("HaloExchange.close: an update is under way; wait() ends it")
        if not self.is_closed:
            self.is_closed = True
            self._calls.clear()
            self._retire()
            close_retired(self.channel.comm.process)

    def _retire(self) -> None:
        self.channel.retire()
        if self._notes is not None:
            self._notes.is_over = True
        if self.reverse is not None:
            self.reverse.channel.retire()

    def __del__(
        self,
    ) -> None:  # no finalizer: those keep what they are to call, which leads to the last call and its grid
        if hasattr(self, "state"):  # __init__ came to its end
            self._retire()

    # -- refusals ------------------------------------------------------------------------------------------------

    def _prepare(self, operation: str, key: Hashable, fields: tuple[Field, ...]) -> int:
        """The address of the call of these fields, which is kept for as long as they live.

        Raises ShapeError, DTypeError and OutputError on all neighbours.
        """
        self.check_idle(operation)
        try:
            call = self.channel.call(self._checks.local_arrays(fields))
            address = self._calls.keep(key, fields, call)
        except (SpmdError, MemoryError) as error:
            raise self.refuse(operation, error, self.channel) from None
        if self._notes is not None:
            self._notes.add(fields)
        return address

    def refuse(self, operation: str, error: Exception, channel: Channel) -> SpmdError:
        """Takes part in an exchange that this process refuses, for ``error``; the error to raise."""
        blamed = self._blamed(operation, error)
        channel.refuse()
        return self.shared_error(blamed, channel)

    def shared_error(self, own: SpmdError | None, channel: Channel) -> SpmdError:
        """The error that all raise which the last exchange, a refused one, connects.  Collective over these."""
        channel.comm.process.activity = self._activity
        return drive(channel.comm, shared_refusal(channel, own))

    def refusal_in_loop(self, f: int, reason: int) -> SpmdError:
        """Makes the next exchange one that refuses field ``f`` of a compiled loop; the error.  Local."""
        error = self._blamed("HaloExchange.update", self._checks.error_in_loop(f, reason))
        self.channel.begin_refusing()
        return error

    def _blamed(self, operation: str, error: Exception) -> SpmdError:
        """The error as all processes raise it: with the operation, and the name of this process.  Local."""
        kind = type(error) if isinstance(error, SpmdError) else TransportError
        where = f"{ON_RANK}{self.grid.rank} {self.grid.coords})"
        return kind(shortened(f"{operation}: {str(error).removeprefix(f'{operation}: ')}") + where)

    def check_idle(self, operation: str) -> None:
        """Refuses a plan that is closed, broken or at work.  Local.  Raises RequestError and TransportError."""
        if self.is_closed:
            raise closed_plan(operation)
        if self._is_broken:
            raise TransportError(f"{operation}: an exchange of this plan has failed; make a new plan")
        if self.flight is not None:
            raise RequestError(f"{operation}: an update is under way; wait() ends it")

    def _check_under_way(self, operation: str) -> UnderWay:
        if self.flight is None:
            if self._is_broken:
                self.check_idle(operation)
            raise RequestError(f"{operation}: no update is under way; start() begins one")
        return self.flight

    def raise_code(self, operation: str, code: int, channel: Channel | None = None) -> NoReturn:
        """Raises the error that a course has ended with.  Local."""
        channel = channel or self.channel
        if code == at.REFUSED_BY:
            raise self.shared_error(None, channel)
        if code == at.BARRED:
            raise self.gate.error()
        if code == at.TAKEN:
            raise self.gate.refusal(operation, "while another thread of this process updates by the same plan")
        if code == at.BUSY:
            self.check_idle(operation)
        if code == at.MOVED:
            raise RequestError(f"{operation}: an array was moved in memory, reshaped or made read-only while under way")
        self._is_broken = True
        channel.raise_ended()


def _run_course(what: int, state: int, call: int) -> int:
    global _run_course
    from spmd_grid.kernels import run_course

    _run_course = run_course
    return run_course(what, state, call)
