"""Follow-ups of a halo update: boundary functions, and notes that the halos of sharded arrays are fresh.

A plan has a list of them; an update that has none to do pays for one look at an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import ref

import numpy as np

from spmd_grid.halo.geometry.pattern import HaloPattern
from spmd_grid.halo.plan.field_checks import Field, LaidOut
from spmd_grid.transport.gate import Gate

__all__ = ["BoundaryFunctions", "FollowUp", "FreshnessNotes", "fills_all"]

_MOST_UNREAD = 2


class FollowUp(Protocol):
    """Something to be done, on each process, after the updates of a plan."""

    def run(self, fields: Sequence[Field], only_dirty: bool) -> None:
        """Do it for ``fields``, which have just been updated.  Local."""


class BoundaryFunctions:
    """The boundary functions of a plan, which set cells that no neighbour waits for."""

    def __init__(self, gate: Gate, calls: Sequence[tuple[Callable, tuple[slice, ...]]]):
        self._gate, self._calls = gate, calls

    def run(self, fields: Sequence[Field], only_dirty: bool) -> None:
        """Call the functions for ``fields``.  Local."""
        for field in fields:
            local = field if isinstance(field, np.ndarray) else field.local
            for function, outside in self._calls:
                self._gate.call_user(function, local, outside)


class FreshnessNotes:
    """Notes that the halos of the sharded arrays that a plan updates are fresh, for the slices that follow.

    A note costs about as much as packing the halo, since an array that the program may write keeps a copy of what was
    exchanged.  So notes end when no slice has read halos between a few updates.  Halos then no longer count as fresh;
    the next slice, or any other refresh of one of these arrays, lets notes begin again.  All of this happens alike on
    every process.
    """

    def __init__(self, follow_ups: list[FollowUp]):
        self._follow_ups = follow_ups
        self._fields: list[ref[LaidOut]] = []
        self._unread = 0
        self._are_kept = False
        self.is_over = False  # whether the plan has been closed

    def begin(self) -> None:
        """Keep notes from now on.  Local."""
        if not self._are_kept and not self.is_over:
            self._are_kept = True
            self._unread = 0
            self._follow_ups.append(self)

    def are_read(self) -> None:
        """Keep notes for further updates: a slice has read halos.  Local."""
        self._unread = 0

    def add(self, fields: Sequence[Field]) -> None:
        """Let those of ``fields`` that are sharded arrays take part.  Local."""
        known = [field for field in [each() for each in self._fields] if field is not None]
        for field in fields:
            if not isinstance(field, np.ndarray) and all([field is not each for each in known]):
                known.append(field)
                field.follow_exchange(self)
                self.begin()
        self._fields = [ref(field) for field in known]

    def run(self, fields: Sequence[Field], only_dirty: bool) -> None:
        """Note that the halos of ``fields`` are fresh, unless some may have been left out.  Local."""
        self._unread += 1
        if self._unread > _MOST_UNREAD:
            self._end()
        elif not only_dirty:
            for field in fields:
                if not isinstance(field, np.ndarray):
                    field.with_fresh_halos()

    def _end(self) -> None:
        self._are_kept = False
        self._follow_ups.remove(self)
        for each in self._fields:
            field = each()
            if field is not None:
                field.forget_freshness()


def fills_all(pattern: HaloPattern) -> bool:
    """Whether an update fills all halo cells in the domain, those of corners included.  Plans only."""
    sharding = pattern.layout.sharding
    return pattern.corners or sum([sharding.halo_of(dim) != (0, 0) for dim in sharding.sharded_dims]) < 2
