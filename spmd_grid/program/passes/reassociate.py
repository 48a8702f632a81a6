"""Contributions combined later: one all_reduce or reduce_scatter of a sum in place of one for each term.

    all_reduce(x) + all_reduce(y)             becomes    all_reduce(x + y)
    reduce_scatter(x) - 2 * reduce_scatter(y) becomes    reduce_scatter(x - 2 * y)
    all_reduce(x).sum(axis=0)                 becomes    all_reduce(x.sum(axis=0))

This is done if operations on the way may be applied to contributions (``linear.py``), and if fewer bytes move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from spmd_grid.compute.contractions.scheme import same_cells
from spmd_grid.compute.splits import plain_sharding
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.partition.builder import applied, is_at_rest
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.steps import Compute, LocalOperand, LocalValue, Move
from spmd_grid.program.passes.compose import composed_in_any_order
from spmd_grid.program.passes.linear import may_be_partial
from spmd_grid.program.passes.rewriting import Links, better, bytes_received, computes_of, in_order, moves_of
from spmd_grid.program.propagate.cuts import WHOLE_CUT, Cut, cut_of, splits_of_cuts

__all__ = ["reassociated"]

_DEEPEST = 8  # operations between a reduction and the one that it moves after


def reassociated(schedule: Schedule) -> Schedule:
    """The schedule in which contributions are combined after the operations that may be applied to them."""
    done: set[int] = set()
    while True:
        found = _improved(schedule, done)
        if found is None:
            return schedule
        schedule = found


def _improved(schedule: Schedule, done: set[int]) -> Schedule | None:
    """The schedule with one operation applied to contributions, where that is better; None where none is."""
    search = _Search(Links(schedule))
    for step in computes_of(schedule):
        if id(step.operation) in done or step.splits is None:
            continue
        form = search.form_of_step(step, 0)
        if form is None:
            continue
        done.add(id(step.operation))
        (result,) = step.results
        added: list[Compute] = []
        moves = {id(each.target): each for each in moves_of(schedule)}
        moved = form.emit(added, moves)
        moves[id(result)] = Move(moved, result, step.operation, f"contributions to {step.name} are combined")
        steps: list[Compute] = []
        for each in computes_of(schedule):
            steps += added if each is step else [each]
        new = composed_in_any_order(in_order(schedule, steps, moves.values()))
        if bytes_received(new.steps) < bytes_received(schedule.steps) and better(new, schedule):
            return new
    return None


class _Owed(NamedTuple):
    """The axes along which contributions are still to be combined, and how."""

    axes: frozenset[int]
    kind: str


@dataclass
class _Form:
    """A way to compute a value from contributions: a value that is partial, or a step with such operands."""

    owed: _Owed
    sharding: Sharding
    value: LocalValue | None = None
    step: Compute | None = None
    operands: tuple[_Form | LocalOperand, ...] = ()
    cuts: tuple[Cut, ...] = ()

    def emit(self, computes: list[Compute], moves: dict[int, Move]) -> LocalValue:
        """The value; computations and moves that it needs are added."""
        if self.value is not None:
            return self.value
        step = self.step
        assert step is not None and step.splits is not None  # one of both is given
        interface = step.operation.interface
        splits = splits_of_cuts(step.splits.grid, self.cuts, tuple([each.extent for each in interface.iterators]))
        operands: list[LocalOperand] = []
        for number, each in enumerate(self.operands):
            if isinstance(each, _Form):
                operands.append(each.emit(computes, moves))
            elif isinstance(each, LocalValue):
                wanted = splits.sharding(interface.operands[number])
                if not is_at_rest(each, wanted):
                    target = LocalValue(each.value, each.shape, each.dtype, wanted)
                    moves[id(target)] = Move(each, target, step.operation, f"{step.name} takes it so")
                    each = target
                operands.append(each)
            else:
                operands.append(each)
        new = applied(step.operation, operands, splits)
        computes.append(new)
        return new.results[0]


class _Search:
    """Finds ways to compute values from contributions."""

    def __init__(self, links: Links):
        self._links = links

    def form_of(self, x: LocalOperand, depth: int) -> _Form | None:
        """The way to compute ``x``, if there is one."""
        if not isinstance(x, LocalValue) or x.is_partial or x.sharding.halo_sizes:
            return None
        root = self._links.root(x)
        if root is not x and root.is_partial and not root.sharding.halo_sizes:
            axes = [axis for axis in root.sharding.partial_axes if root.sharding.grid.shape[axis] > 1]
            return _Form(_Owed(frozenset(axes), root.sharding.partial_kind), plain_sharding(root.sharding), root)
        step = self._links.compute_of(root)
        return None if step is None or depth >= _DEEPEST else self.form_of_step(step, depth + 1)

    def form_of_step(self, step: Compute, depth: int) -> _Form | None:
        """The way to apply a step to contributions, if there is one."""
        if step.splits is None or len(step.results) != 1 or step.results[0].is_partial:
            return self._already_partial(step, depth)
        return self._applied(step, depth)

    def _already_partial(self, step: Compute, depth: int) -> _Form | None:
        """Steps that combine contributions of their own are applied to those of the same kind."""
        if step.splits is None or len(step.results) != 1:
            return None
        return self._applied(step, depth)

    def _applied(self, step: Compute, depth: int) -> _Form | None:
        forms = [self.form_of(x, depth) for x in step.operands]
        for owed in dict.fromkeys([each.owed for each in forms if each is not None]):
            which = tuple([i for i, each in enumerate(forms) if each is not None and each.owed == owed])
            for chosen in dict.fromkeys([which, *[(i,) for i in which]]):
                if may_be_partial(step, chosen, owed.kind):
                    found = self._cut(step, owed, chosen, forms)
                    if found is not None:
                        return found
        return None

    def _cut(self, step: Compute, owed: _Owed, which: tuple[int, ...], forms: list[_Form | None]) -> _Form | None:
        """The step on the blocks of its partial operands, where these fit together."""
        interface = step.operation.interface
        splits = step.splits
        assert splits is not None  # `form_of_step`
        cuts: list[Cut | None] = [None] * len(interface.iterators)
        for number in which:
            form = forms[number]
            assert form is not None  # chosen so
            for dim, i in enumerate(interface.operands[number]):
                cut = cut_of(form.sharding, dim)
                if i is None:
                    if cut.axes:
                        return None
                elif cuts[i] is None:
                    cuts[i] = cut
                elif cuts[i] != cut:
                    return None
        used = {axis for cut in cuts if cut is not None for axis in cut.axes}
        for i, axes in enumerate(splits.axes):
            if cuts[i] is None:
                free = not (used | owed.axes) & set(axes)
                cuts[i] = Cut(axes, splits.blocks, splits.offsets[i]) if free else WHOLE_CUT
                used |= set(axes) if free else set()
        final = tuple([cut or WHOLE_CUT for cut in cuts])
        flat = [axis for cut in final for axis in cut.axes]
        reduced = [cut for cut, each in zip(final, interface.iterators) if each.is_reduction and cut.axes]
        if (
            len(flat) > len(set(flat))
            or owed.axes & set(flat)
            or any(cut.axes and each.kind == "whole" for cut, each in zip(final, interface.iterators))
        ):
            return None
        if reduced and step.operation.kind != owed.kind:
            return None
        extents = tuple([each.extent for each in interface.iterators])
        made = splits_of_cuts(splits.grid, final, extents)
        for number in which:
            form = forms[number]
            assert form is not None  # chosen so
            if not same_cells(made.sharding(interface.operands[number]), form.sharding, step.operands[number].shape):
                return None
        summed = {axis for cut in reduced for axis in cut.axes if splits.grid.shape[axis] > 1}
        operands = tuple([(forms[i] or x) if i in which else x for i, x in enumerate(step.operands)])
        result = made.sharding(interface.results[0])
        return _Form(_Owed(owed.axes.union(summed), owed.kind), result, None, step, operands, final)
