"""A halo exchange that is watched: its calls are recorded, and in checking mode compared before they begin.

A class of its own, which an exchange takes on when it is made, so that one which nobody watches pays nothing.
Simulated ranks need no comparison: where they are at odds, their deadlock is found at once.  Compiled loops make none:
in checking mode, all processes come to an update from such loops, or none.
"""

from __future__ import annotations

from functools import cache, wraps

from spmd_grid.ops.compare import AgreePlan
from spmd_grid.watch.trace_loops import Form

__all__ = ["loop_form", "watched"]


class _MethodCall:
    """A call of one method of a plan, in words."""

    def __init__(self, method: str, exchange):
        self._method, self._exchange = method, exchange

    def describe(self) -> str:
        return f"HaloExchange.{self._method} of {self._exchange.name or self._exchange._words}"


def _recorded(method, together: bool = True):
    """``method``, recorded; ``together``: the whole group calls it at once, which checking mode makes sure of."""
    agreement = AgreePlan(f"HaloExchange.{method.__name__}")

    def checked(self, *fields, **options):
        if together and self._grid.recorder.check and not (self._comm.shares_objects or self._closed):
            compare = self._comparisons.get(method)
            if compare is None:
                compare = self._comparisons[method] = agreement.comparison(self._grid, self._axes, self._words)
            compare()
        result = method(self, *fields, **options)
        if together:
            back = method.__name__ == "accumulate"
            self._grid.recorder.moved(self._reverse.channel if back else self._channel)
        return result

    @wraps(method)
    def call(self, *fields, **options):
        recorder = self._grid.recorder
        if recorder is None or not recorder.is_idle:
            return method(self, *fields, **options)
        activity = _MethodCall(method.__name__, self)
        return recorder.run(activity, fields[0] if fields else None, checked, self, *fields, **options)

    return call


def loop_form(exchange) -> Form | None:
    """What makes compiled loops note their updates by themselves; None where nothing is traced.  Local."""
    recorder = exchange._grid.recorder
    return None if recorder is None else recorder.loop_form(_MethodCall("update", exchange), exchange._channel)


@cache
def watched(kind: type) -> type:
    """The class of exchanges of a ``kind`` that are watched."""
    together = {name: _recorded(getattr(kind, name)) for name in ("update", "start", "accumulate")}
    return type(kind.__name__, (kind,), together | {"wait": _recorded(kind.wait, together=False)})
