"""Shifted slices of one array share one exchange: borders come as a halo, and slices are cut out of it.

    u[2:] - 2 * u[1:-1] + u[:-2]      three moves of cells next to the borders of blocks become
    one move of u to the same sharding with a halo, and three slices of what each device then holds

where no more bytes move.  On a grid of several axes a five-point stencil needs no corners: slices that reach along one
dimension share a halo in that dimension alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.compute.indexing.index import Selection
from spmd_grid.compute.indexing.shardings import held_sharding
from spmd_grid.compute.splits import block_starts
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.grid.starts import linear_parts
from spmd_grid.program.lowerings.selections import Select, cutter
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.steps import Compute, LocalOperand, LocalValue, Move
from spmd_grid.program.passes.rewriting import Links, better, computes_of, in_order, moves_of
from spmd_grid.typing import MultiIndex

__all__ = ["with_shared_halos"]

Halo = tuple[int, int]


def with_shared_halos(schedule: Schedule) -> Schedule:
    """The schedule in which slices of one array that reach into neighbours' blocks take them from one halo."""
    by_source: dict[int, list[_Slice]] = {}
    links = Links(schedule)
    for step in computes_of(schedule):
        found = _slice_of(step, links)
        if found is not None:
            by_source.setdefault(id(found.source), []).append(found)
    for slices in by_source.values():
        moved = [each for each in slices if each.move is not None]
        if len(moved) > 1:
            schedule = _best(schedule, _shared(schedule, moved), _shared_by_dims(schedule, moved))
    return schedule


def _best(schedule: Schedule, *others: Schedule) -> Schedule:
    """The schedule, or one that is better: none moves more bytes."""
    for each in others:
        if better(each, schedule):
            schedule = each
    return schedule


def _shared_by_dims(schedule: Schedule, slices: list[_Slice]) -> Schedule:
    """The schedule in which slices that reach along the same dimensions share a halo, where that is better."""
    groups: dict[tuple[int, ...], list[_Slice]] = {}
    for each in slices:
        dims = tuple([dim for dim in each.source.sharding.sharded_dims if any(_reach([each], dim))])
        groups.setdefault(dims, []).append(each)
    for group in groups.values():
        if len(group) > 1:
            schedule = _best(schedule, _shared(schedule, group))
    return schedule


class _Slice(NamedTuple):
    """A slice of ``source`` on blocks, with the ``move`` that brings it the cells next to the borders, if any does."""

    source: LocalValue
    step: Compute
    move: Move | None
    selection: Selection

    @property
    def result(self) -> LocalValue:
        """The slice where it belongs."""
        return self.step.results[0] if self.move is None else self.move.target

    def after(self, other: _Slice) -> _Slice:
        """The same slice of another one's cells, which has all of its own or the same along each dimension."""
        whole = [n == extent for n, extent in zip(other.selection.counts, self.source.shape)]
        own = self.selection
        starts = tuple([start if all_ else 0 for start, all_ in zip(own.starts, whole)])
        steps = tuple([step if all_ else 1 for step, all_ in zip(own.steps, whole)])
        return self._replace(selection=replace(own, starts=starts, steps=steps))


def _slice_of(step: Compute, links: Links) -> _Slice | None:
    """The slice that a step is, if halos can give it: its cells keep their order, and no cut dimension is dropped."""
    lowering = step.operation.lowering
    if step.name != "select" or not isinstance(lowering, Select):
        return None
    (source,), selection = step.inputs, lowering.selection
    sharding = source.sharding
    if (
        source.is_partial
        or sharding.halo_sizes
        or set(sharding.sharded_dims) & {*selection.dropped, *selection.flipped}
    ):
        return None
    (result,) = step.results
    users = links.users(result)
    move = users[0] if len(users) == 1 and isinstance(users[0], Move) and links.is_used_once(result) else None
    found = _Slice(source, step, move, selection)
    same_grid = found.result.sharding.grid == sharding.grid
    axes = [found.result.sharding.axes_of(d) for d in range(len(source.shape))]
    return found if same_grid and axes == [sharding.axes_of(d) for d in range(len(source.shape))] else None


def _shared(schedule: Schedule, slices: list[_Slice]) -> Schedule:
    source, computes = slices[0].source, computes_of(schedule)
    halos = [_reach(slices, dim) for dim in range(len(source.shape))]
    narrow = _narrowed(slices, halos)
    if narrow is not None:
        at = next(i for i, step in enumerate(computes) if step is slices[0].step)
        computes.insert(at, narrow.step)
        (source,) = narrow.step.results
    sharding = source.sharding
    around = Sharding(
        sharding.grid,
        sharding.split_axes,
        blocks=sharding.blocks,
        sharded_dims_offsets=sharding.sharded_dims_offsets,
        halo_sizes=[halos[dim] for dim in sharding.sharded_dims],
    )
    held = LocalValue(source.value, source.shape, source.dtype, around)
    reason = f"borders for {len(slices)} slices"
    moves = {id(each.target): each for each in moves_of(schedule)}
    moves[id(held)] = Move(source, held, slices[0].step.operation, reason)
    by_step: dict[int, Compute] = {}
    for each in slices:
        assert each.move is not None  # those that are moved are chosen
        moves.pop(id(each.move.target), None)  # slices may share one move
        by_step[id(each.step)] = _cut_out(each if narrow is None else each.after(narrow), held)
    steps = [by_step.get(id(step), step) for step in computes]
    return in_order(schedule, steps, moves.values())


def _narrowed(slices: list[_Slice], halos: list[Halo]) -> _Slice | None:
    """The cells that all slices have in dimensions in which they reach into no other block: none else need move."""
    source, operation = slices[0].source, slices[0].step.operation
    starts, counts, steps = [], [], []
    for dim, extent in enumerate(source.shape):
        found = {(s.starts[dim], s.counts[dim], s.steps[dim]) for s in [each.selection for each in slices]}
        start, count, step = found.pop() if len(found) == 1 and not any(halos[dim]) else (0, extent, 1)
        starts.append(start)
        counts.append(count)
        steps.append(step)
    if tuple(counts) == source.shape:
        return None
    selection, layout = Selection(tuple(starts), tuple(counts), tuple(steps)), source.layout
    sharding = held_sharding(source.sharding, source.shape, selection)
    result = LocalValue(source.value, selection.counts, source.dtype, sharding)

    key = "select", selection, layout
    narrow = Compute("select", cutter(selection, layout), (source,), (result,), operation, key)
    return _Slice(source, narrow, None, selection)


def _reach(slices: list[_Slice], dim: int) -> Halo:
    """The most cells that the slices need below and above the blocks of a dimension."""
    source, low, high = slices[0].source, 0, 0
    if not source.sharding.axes_of(dim):
        return 0, 0
    starts = block_starts(source.sharding, dim, source.shape[dim])
    for each in slices:
        wanted = block_starts(each.result.sharding, dim, each.selection.counts[dim])
        for block in linear_parts(starts, wanted):
            own_start, own_stop, first, stop = starts[block], starts[block + 1], wanted[block], wanted[block + 1]
            if first < stop:
                begin = each.selection.starts[dim] + first * each.selection.steps[dim]
                end = each.selection.starts[dim] + (stop - 1) * each.selection.steps[dim] + 1
                low, high = max(low, own_start - begin), max(high, end - own_stop)
    return low, high


def _cut_out(each: _Slice, held: LocalValue) -> Compute:
    """The slice, cut out of blocks with halos."""
    selection, result = each.selection, each.result
    layout, wanted = Layout(held.sharding, held.shape), Layout(result.sharding, result.shape)

    def bind(coords: MultiIndex) -> Callable[..., Any]:
        starts, box, cells = layout.local_box(coords).starts, wanted.core_box(coords), []
        for at, first, stop, begin, step in zip(starts, box.starts, box.stops, selection.starts, selection.steps):
            low = begin + first * step - at
            cells.append(slice(low, low + (stop - first - 1) * step + 1, step) if first < stop else slice(0, 0))
        key = tuple(cells)

        def cut(block: np.ndarray) -> np.ndarray:
            return block[key]

        return cut

    operands: tuple[LocalOperand, ...] = (held,)
    key = "select in halo", selection, layout, result.sharding
    return replace(each.step, bind=bind, operands=operands, results=(result,), key=key)
