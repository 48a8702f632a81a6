"""The entry of compiled loops into a halo plan: which arrays they may bring, and how their errors are raised."""

from __future__ import annotations

import weakref

from spmd_grid.errors import SpmdError
from spmd_grid.exchange.requests import closed_plan
from spmd_grid.halo.plan.halo_plan import HaloPlan, PlanActivity
from spmd_grid.kernels.protocol import slots as at

__all__ = ["HaloLoopEntry", "raise_in_loop"]

_UPDATE = "HaloExchange.update"


class HaloLoopEntry:
    """Lets compiled code update by ``plan``.

    The channel calls back through a weak reference, so a plan that is dropped is retired at once.
    """

    def __init__(self, plan: HaloPlan):
        self._plan = plan
        self._error: SpmdError | None = None  # of the array that compiled code has brought
        _entries[plan.state] = self
        recorder, form = plan.grid.recorder, None
        if recorder is not None:
            form = recorder.loop_form(PlanActivity(f"{_UPDATE} of {plan.title}"), plan.channel)
        me = weakref.ref(self)

        def refuse(f: int, reason: int, _: int) -> None:
            me()._refuse(f, reason)  # type: ignore[union-attr]  # a loop that runs holds the plan

        plan.channel.let_loops_in(refuse, not plan.edges, form)

    def _refuse(self, f: int, reason: int) -> None:
        self._error = self._plan.refusal_in_loop(f, reason)

    def end(self, code: int) -> None:
        """Raises the error that an update in compiled code has ended with.

        Local.  Returns where the plan has been handed over to the calling thread.
        """
        try:
            self._end(code)
        except BaseException as error:
            if not isinstance(error, SpmdError) or error.cuts_off:
                self._plan.gate.cut_off(f"{_UPDATE} in a compiled loop", error)
            raise

    def _end(self, code: int) -> None:
        channel = self._plan.channel
        if code == at.TAKEN and channel.hand_over():
            return
        error, self._error = self._error, None
        if error is not None:
            channel.end_refusing()
            if code == at.REFUSED_BY:
                raise self._plan.shared_error(error, channel)
        self._plan.raise_code(_UPDATE, code)


# The entries into plans that compiled code may hold, by the address of the plan's state.
_entries: weakref.WeakValueDictionary[int, HaloLoopEntry] = weakref.WeakValueDictionary()


def raise_in_loop(state: int, code: int) -> None:
    """Raises the error that an update ended with, unless the plan has been handed over to this thread.  Local."""
    entry = _entries.get(state)
    if entry is None:
        raise closed_plan("HaloExchange")
    entry.end(code)
