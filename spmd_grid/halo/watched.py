"""A halo exchange that is watched: its calls are recorded, and in checking mode compared before they begin.

A class of its own, which an exchange takes on when it is made, so that one which nobody watches pays nothing.
Simulated ranks need no comparison: where they are at odds, their deadlock is found at once.  Compiled loops make none:
in checking mode, all processes come to an update from such loops, or none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps

from spmd_grid.ops.calls.compare import AgreePlan
from spmd_grid.watch.trace.loops import Form

__all__ = ["loop_form", "watched"]


class _MethodCall:
    """The calls of one method of a plan, in words; and what compares them, if together all make them."""

    def __init__(self, method: str, exchange):
        self._text = f"HaloExchange.{method} of {exchange.name or exchange._words}"
        self.compare: Callable[[], object] | None = None

    def describe(self) -> str:
        return self._text


def _recorded(method, together: bool = True):
    """``method``, recorded; ``together``: the whole group calls it at once, which checking mode makes sure of."""
    name = method.__name__.removeprefix("_")
    agreement = AgreePlan(f"HaloExchange.{name}")

    def checked(self, recorder, activity, *args):
        if together and recorder.check and not (self._comm.shares_objects or self._closed):
            if activity.compare is None:
                activity.compare = agreement.comparison(self._grid, self._axes, self._words)
            activity.compare()
        result = method(self, *args)
        if together:
            recorder.moved(self._reverse.channel if name == "accumulate" else self._channel)
        return result

    @wraps(method)
    def call(self, *args):
        recorder = self._grid.process.recorder
        if recorder is None or not recorder.is_idle:
            return method(self, *args)
        activity = self._method_calls.get(name)
        if activity is None:
            activity = self._method_calls[name] = _MethodCall(name, self)
        field = args[0][0] if args and args[0] else None
        return recorder.run(activity, field, checked, self, recorder, activity, *args)

    return call


def loop_form(exchange) -> Form | None:
    """What makes compiled loops note their updates by themselves; None where nothing is traced.  Local."""
    recorder = exchange._grid.process.recorder
    return None if recorder is None else recorder.loop_form(_MethodCall("update", exchange), exchange._channel)


@cache
def watched(kind: type) -> type:
    """The class of exchanges of a ``kind`` that are watched."""
    together = {name: _recorded(getattr(kind, name)) for name in ("_update", "_start", "_accumulate")}
    return type(kind.__name__, (kind,), together | {"_wait": _recorded(kind._wait, together=False)})
