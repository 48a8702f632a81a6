"""The updates of a halo plan, each through the gate of the process: by Python, or as one compiled function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spmd_grid import kernels
from spmd_grid.halo.plan.field_checks import Field
from spmd_grid.halo.plan.halo_plan import HaloPlan
from spmd_grid.kernels.protocol import slots as at

__all__ = ["Updates", "updates_of"]


def updates_of(plan: HaloPlan) -> Callable[..., None]:
    """The function ``update(*fields, only_dirty=False)`` of a plan; it keeps the plan alive.

    If ranks are processes, and nothing is recorded, updates of known fields are a compiled function
    (``kernels/protocol/quick_update.py``).
    """
    updates = Updates(plan)
    if type(plan) is not HaloPlan or plan.channel.comm.shares_objects or not kernels.FIELDS_OFFSET:
        return updates.update
    return updates.compiled()


class Updates:
    """The updates of a plan by Python."""

    def __init__(self, plan: HaloPlan):
        self._plan, self._gate = plan, plan.gate
        self._update, self._follow_ups = plan.update, plan.follow_ups  # kept here too, since every update looks them up

    def update(self, *fields: Field, only_dirty: bool = False) -> None:
        """As `HaloExchange.update`."""
        try:
            gate, token = self._gate, None
            token = gate.idle.pop()
            self._update(fields, only_dirty)
            if self._follow_ups:
                self._plan.follow_up(fields, only_dirty)
            gate.idle.append(token)
        except BaseException as error:
            self._gate.fail("HaloExchange.update", locals().get("token"), error)
            raise

    def compiled(self) -> Callable[..., None]:
        """The compiled function, which leaves to `update` what it does not know."""
        plan, slow, end = self._plan, self.update, self._end
        head, known = np.zeros(at.FIELDS_WORDS, np.int64), plan.known_fields
        head[at.FIELDS_STATE], head[at.FIELDS_KNOWN] = plan.state, kernels.address_of(known)
        head[at.FIELDS_LATCH], head[at.FIELDS_LATER] = kernels.address_of(self._gate.latch), id(plan.follow_ups)
        head[at.FIELDS_SLOW], head[at.FIELDS_END], head[at.FIELDS_NONE] = id(slow), id(end), id(_NOTHING)
        keeps: tuple[Any, ...] = head, known, plan, plan.follow_ups, self._gate.latch, slow, end
        return kernels.new_quick_update(kernels.address_of(head), keeps)

    def _end(self, code: int) -> None:
        """Raise the error of an update that compiled code has ended with ``code``."""
        try:
            gate, token = self._gate, None
            token = gate.idle.pop()
            self._plan.raise_code("HaloExchange.update", code)
        except BaseException as error:
            self._gate.fail("HaloExchange.update", locals().get("token"), error)
            raise


_NOTHING = None
