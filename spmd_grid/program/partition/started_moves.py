"""Moves that are started where their operand is ready, and waited for before their result is read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from spmd_grid.errors import SpmdError
from spmd_grid.exchange.paths import DIRECT, chosen_path, path_for
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.halo.exchange import HaloExchange
from spmd_grid.program.ir import CallSite
from spmd_grid.program.partition.bound_moves import BoundMove, Run, is_collective, planned, slicing, with_line
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.steps import Move, Step, Wait
from spmd_grid.reshard.executor.bound_plan import outside
from spmd_grid.reshard.planner.steps import SLICE

__all__ = ["bind_started", "can_start", "settled"]


def can_start(move: Move) -> bool:
    """Whether the engine can start the move: one collective, perhaps with slices around it, or halos.  Local."""
    if move.together or not move.plan.totals().received:
        return False
    steps = move.plan.steps
    return _adds_halos(move) or (all(map(is_collective, steps)) and sum(step.kind != SLICE for step in steps) == 1)


def settled(schedule: Schedule, grid: ProcessGrid) -> Schedule:
    """The schedule as the processes of ``grid`` run it, alike on all of them.

    If all share memory, they copy the cells of a collective themselves, and nothing could hide that: it then runs as a
    whole in the place of the wait.  Halos lie ready for neighbours in any case.
    """
    if path_for(grid.group(tuple(range(grid.ndim))), chosen_path()) != DIRECT:
        return schedule
    steps: list[Step] = []
    for step in schedule.steps:
        if isinstance(step, Wait) and not _adds_halos(step.move):
            steps.append(replace(step.move, is_started=False))
        elif not isinstance(step, Move) or not step.is_started or _adds_halos(step):
            steps.append(step)
    return replace(schedule, steps=tuple(steps))


def bind_started(move: Move, grid: ProcessGrid) -> BoundMove:
    """A started move on the processes of ``grid``: ``run`` starts it, ``wait`` gives its target.  Collective."""
    found: _Startable = _Halos(move, grid) if _adds_halos(move) else _Collective(move, grid)
    start, end, drop = found.start, found.end, found.drop
    waiting: list[None] = []  # whether it is under way

    def begin(x: Any, out: np.ndarray | None = None) -> None:
        start(x, out)
        waiting.append(None)

    def wait() -> Any:
        waiting.clear()
        return end()

    def abandon() -> None:
        if waiting:
            waiting.clear()
            with suppress(SpmdError):  # one has ended the run already
                drop()

    site = None if move.operation is None else move.operation.site
    begin, wait = _at(site, begin, wait)
    return BoundMove(begin, found.takes_out, wait=wait, abandon=abandon)


class _Startable(Protocol):
    """A move in two halves."""

    takes_out: bool

    def start(self, x: Any, out: np.ndarray | None) -> None:
        """Begins it.  Collective."""

    def end(self) -> Any:
        """Waits for it; the local array of the target.  Collective."""

    def drop(self) -> None:
        """Ends it where its target is not needed any more.  Collective."""


class _Collective:
    """One collective; what it takes is sliced before, and what it gives after."""

    def __init__(self, move: Move, grid: ProcessGrid):
        steps = list(move.plan.steps)
        at = next(i for i, step in enumerate(steps) if step.kind != SLICE)
        self._before: list[Run] = [slicing(step, grid) for step in steps[:at]]
        self._after: list[Run] = [slicing(step, grid) for step in steps[at + 1 :]]
        self._plan = planned(steps[at], move.source.dtype, grid, move.name)
        self.takes_out = not self._after

    def start(self, x: Any, out: np.ndarray | None) -> None:
        for stage in self._before:
            x = stage(x)
        self._plan.start(x, out)

    def end(self) -> Any:
        found: Any = self._plan.wait()
        for stage in self._after:
            found = stage(found)
        return found

    def drop(self) -> None:
        self._plan.wait()


class _Halos:
    """A new array with the cells of the source, whose halos are exchanged."""

    takes_out = True

    def __init__(self, move: Move, grid: ProcessGrid):
        held, wanted = move.source.layout, move.target.layout
        coords = grid.own_coords
        self._shape, self._dtype = wanted.local_shape(coords), move.target.dtype
        self._core = wanted.core_in_local(coords).slices()
        self._source_shape = held.local_shape(coords)
        self._outside = list(outside(wanted, coords))
        self._allocate = grid.allocate
        self._exchange = HaloExchange(grid, move.target.sharding, wanted.global_shape, self._dtype, name=move.name)
        self._target: np.ndarray | None = None

    def start(self, x: Any, out: np.ndarray | None) -> None:
        target = self._allocate(self._shape, self._dtype) if out is None else out
        target[self._core] = np.asarray(x).reshape(self._source_shape)
        for cells in self._outside:
            target[cells] = np.zeros((), self._dtype)
        self._exchange.start(target)
        self._target = target

    def end(self) -> Any:
        target, self._target = self._target, None
        self._exchange.wait()
        return target

    def drop(self) -> None:
        self.end()


def _adds_halos(move: Move) -> bool:
    """Whether the target is the source with a halo, of whole values."""
    held, wanted = move.source.sharding, move.target.sharding
    is_wider = bool(wanted.halo_sizes) and not held.halo_sizes and not held.partial_axes
    return is_wider and replace(wanted, halo_sizes=None) == held


def _at(site: CallSite | None, begin: Run, wait: Run) -> tuple[Run, Run]:
    """Both halves, called from the line of the user's function."""
    if site is None:
        return begin, wait
    started: Callable[..., Any] = lambda x, out=None: begin(x, out)  # noqa: E731  # its code becomes the line's
    waited: Callable[..., Any] = lambda: wait()  # noqa: E731
    return with_line(site, started), with_line(site, waited)
