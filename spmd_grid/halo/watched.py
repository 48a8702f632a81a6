"""A halo exchange that is watched: its calls are recorded, and in checking mode compared before they begin.

Its methods are replaced on the object, so that one which nobody watches pays nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from spmd_grid.ops.compare import AgreePlan
from spmd_grid.watch.recorder import Recorder

__all__ = ["watch"]

# Which methods to record, and whether the group comes to them together.
_METHODS = {"update": True, "start": True, "wait": False, "accumulate": True}


class _MethodCall:
    """A call of one method of a plan, in words."""

    def __init__(self, method: str, shown: str):
        self.method, self._text = method, f"HaloExchange.{method} of {shown}"

    def describe(self) -> str:
        return self._text


def watch(exchange, grid, axes, shown: str, recorder: Recorder) -> None:
    """Replaces the methods of ``exchange`` by recorded ones.  Local."""
    me = weakref.ref(exchange)
    for name, is_joint in _METHODS.items():
        agree = AgreePlan(f"HaloExchange.{name}") if is_joint else None
        setattr(exchange, name, _recorded(me, getattr(type(exchange), name), agree, grid, axes, shown, recorder))


def _recorded(me, method: Callable, agree: AgreePlan | None, grid, axes, shown: str, recorder: Recorder) -> Callable:
    activity = _MethodCall(method.__name__, shown)

    def run(*fields, **options):
        if agree is not None and recorder.check:
            agree.agree(grid, axes, shown)
        return method(me(), *fields, **options)

    def call(*fields, **options):
        if not recorder.is_idle:
            return run(*fields, **options)
        return recorder.run(activity, fields[0] if fields else None, run, *fields, **options)

    return call
