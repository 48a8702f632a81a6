"""Shifted slices of one array share one exchange: borders come as a halo, and slices are cut out of it.

    u[2:] - 2 * u[1:-1] + u[:-2]      three moves of cells next to the borders of blocks become
    one move of u to the same sharding with a halo, and three slices of what each device then holds

where no more bytes move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.compute.indexing.index import Selection
from spmd_grid.compute.splits import block_starts
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.grid.starts import linear_parts
from spmd_grid.program.lowerings.selections import Select
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
        if sum(each.move is not None for each in slices) > 1:
            new = _shared(schedule, slices)
            if new is not None and better(new, schedule):
                schedule = new
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


def _shared(schedule: Schedule, slices: list[_Slice]) -> Schedule | None:
    source = slices[0].source
    sharding = source.sharding
    halos = [_reach(slices, dim) for dim in sharding.sharded_dims]
    around = Sharding(
        sharding.grid,
        sharding.split_axes,
        blocks=sharding.blocks,
        sharded_dims_offsets=sharding.sharded_dims_offsets,
        halo_sizes=halos,
    )
    held = LocalValue(source.value, source.shape, source.dtype, around)
    reason = f"borders for {sum(each.move is not None for each in slices)} slices"
    moves = {id(each.target): each for each in moves_of(schedule)}
    moves[id(held)] = Move(source, held, slices[0].step.operation, reason)
    by_step: dict[int, Compute] = {}
    for each in slices:
        if each.move is not None:
            del moves[id(each.move.target)]
            by_step[id(each.step)] = _cut_out(each, held)
    steps = [by_step.get(id(step), step) for step in computes_of(schedule)]
    return in_order(schedule, steps, moves.values())


def _reach(slices: list[_Slice], dim: int) -> Halo:
    """The most cells that the slices need below and above the blocks of a dimension."""
    source, low, high = slices[0].source, 0, 0
    starts = block_starts(source.sharding, dim, source.shape[dim])
    for each in slices:
        wanted = block_starts(each.result.sharding, dim, each.selection.counts[dim])
        for block in linear_parts(starts, wanted):
            own, behind, first, stop = starts[block], starts[block + 1], wanted[block], wanted[block + 1]
            if first < stop:
                begin = each.selection.starts[dim] + first * each.selection.steps[dim]
                end = each.selection.starts[dim] + (stop - 1) * each.selection.steps[dim] + 1
                low, high = max(low, own - begin), max(high, end - behind)
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
