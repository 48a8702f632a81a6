"""Propagation of shardings to a fixed point, backward and then forward over the operations.

The order in which conflicts are resolved, as in the RFC's ``getShardingOption``, an iterator at a time:

1. the cut that a mutation or a required annotation gives it stays;
2. then the dimensions of results count, then those of operands, in order; the first that is cut decides;
3. an axis that already cuts another iterator of the operation, or another dimension of the value, is left out, and with
   it the axes after it (the longest prefix stays: as Shardy's basic strategy);
4. a dimension that is open takes more axes after those that it has; a closed one never changes;
5. annotations of a lower priority number propagate to a fixed point before others are laid on.

Where an operand is held in another cut than its operation takes, it is moved; so no conflict is left without an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spmd_grid.functions.interface import PARALLEL, WHOLE
from spmd_grid.grid.device_grid import Grid
from spmd_grid.program.ir import Annotation, Operation, Program, Value
from spmd_grid.program.propagate.annotations import Laid
from spmd_grid.program.propagate.cuts import WHOLE_CUT, Cut
from spmd_grid.program.propagate.solution import Dimension, Reason, Solution, outer_axes

__all__ = ["propagate"]

_MOST_ROUNDS = 1000  # each changes a cut; programs need a few


def propagate(
    program: Program,
    grid: Grid,
    annotations: Sequence[Annotation],
    mutations: Mapping[Operation, Sequence[Sequence[int]]] | None = None,
) -> Solution:
    """A sharding for every value.  Plans only.  Raises ShardingError where two requirements cannot both hold.

    ``mutations``: for operations the axes that cut each iterator, whatever propagation would find.
    """
    return _Propagation(program, grid, mutations or {}).run(annotations)


class _Propagation:
    def __init__(self, program: Program, grid: Grid, mutations: Mapping[Operation, Sequence[Sequence[int]]]):
        self.program = program
        self.solution = Solution(program, grid)
        self.members = _members(program)
        self.laid = Laid(self.solution, self.members)
        self.changed = False
        self.fixed = mutations
        for operation in program.operations:
            given = mutations.get(operation)
            self.solution.iterators[operation] = (
                [None] * len(operation.interface.iterators) if given is None else [Cut(tuple(axes)) for axes in given]
            )

    def run(self, annotations: Sequence[Annotation]) -> Solution:
        for priority in sorted({each.priority for each in annotations} or {0}):
            for annotation in annotations:
                if annotation.priority == priority:
                    self.laid.lay(annotation)
            for _ in range(_MOST_ROUNDS):
                self.changed = False
                for operation in reversed(self.program.operations):
                    self._visit(operation)
                for operation in self.program.operations:
                    self._visit(operation)
                if not self.changed:
                    break
        for operation in self.program.operations:
            if operation not in self.fixed:
                self._free_whole(operation)
        return self.solution

    def _visit(self, operation: Operation) -> None:
        interface, cuts = operation.interface, self.solution.iterators[operation]
        sources: dict[int, Dimension] = {}
        if operation not in self.fixed:
            self._take_partial(operation)
            for result, by in zip(operation.results, interface.results):
                self._read(operation, result, by, sources, is_result=True)
            for operand, by in zip(operation.operands, interface.operands):
                if isinstance(operand, Value):
                    self._read(operation, operand, by, sources)
        for value, by in [*zip(operation.results, interface.results), *zip(operation.operands, interface.operands)]:
            if not isinstance(value, Value):
                continue
            before = outer_axes(operation, value in operation.results)
            for dim, i in enumerate(by):
                cut = cuts[i] if i is not None else None
                if before and before[dim] and cut is not None:
                    cut = Cut((*before[dim], *cut.axes), cut.blocks)
                if cut is not None and cut.axes:
                    self._write(operation, Dimension(value, dim), cut, sources.get(i))  # type: ignore[arg-type]

    def _read(
        self,
        operation: Operation,
        value: Value,
        by: Sequence[int | None],
        sources: dict[int, Dimension],
        is_result: bool = False,
    ) -> None:
        """Cuts of the value's dimensions become those of the iterators that run along them."""
        interface, cuts = operation.interface, self.solution.iterators[operation]
        before = outer_axes(operation, is_result)
        for dim, i in enumerate(by):
            at = Dimension(value, dim)
            cut = self.solution.cuts.get(at)
            if before and before[dim]:
                cut = _within(cut, before[dim])
            if i is None or interface.iterators[i].kind == WHOLE:
                continue
            held = cuts[i]
            if cut is None or not cut.axes:
                if is_result and held is None and at in self.laid.closed:
                    cuts[i] = WHOLE_CUT  # the result must be whole here, so the operation does not cut it
                    self.changed = True
                continue
            if held is not None and not (cut.extends(held) and held.axes):
                if held == cut:
                    sources.setdefault(i, at)
                continue
            taken = {axis for j, each in enumerate(cuts) if each is not None and j != i for axis in each.axes}
            if cut.offsets and (value.shape[dim] != interface.iterators[i].extent or operation.lowering is not None):
                cut = Cut(cut.axes)
            cut = cut.prefix(taken)
            if cut.axes and cut != held:
                cuts[i] = cut
                sources[i] = at
                self.changed = True
            elif cut == held:
                sources.setdefault(i, at)

    def _write(self, operation: Operation, at: Dimension, cut: Cut, source: Dimension | None) -> None:
        """The cut of an iterator becomes that of a dimension, if it is open and has none or a shorter one.

        All values of a sharding group get it, or none.
        """
        group = [Dimension(value, at.dim) for value in self.members.get(at.value, (at.value,))]
        known = self.solution.cuts.get(at)
        if at in self.laid.closed or (known is not None and not cut.extends(known)) or source == at:
            return
        if cut.offsets and cut.offsets[-1] != at.value.shape[at.dim]:
            cut = Cut(cut.axes)
        cut = cut.prefix({axis for each in group for axis in self.laid.taken(each)})
        if not cut.axes or cut == known:
            return
        for each in group:
            self.solution.cuts[each] = cut
            self.solution.reasons[each] = Reason(None, operation, source) if each == at else Reason(None, None, at)
        self.changed = True

    def _take_partial(self, operation: Operation) -> None:
        """Axes along which a result is annotated as partial cut a reduction: that with the most steps."""
        cuts, iterators = self.solution.iterators[operation], operation.interface.iterators
        for value in operation.results:
            annotation = self.solution.annotations.get(value)
            if annotation is None or annotation.sharding.partial_kind != operation.kind:
                continue
            taken = {axis for cut in cuts if cut is not None for axis in cut.axes}
            axes = tuple([axis for axis in annotation.sharding.partial_axes if axis not in taken])
            free = [i for i, each in enumerate(iterators) if each.is_reduction and cuts[i] is None]
            if axes and free:
                cuts[max(free, key=lambda i: iterators[i].extent)] = Cut(axes)
                self.changed = True

    def _free_whole(self, operation: Operation) -> None:
        """Axes that cut an operand where the operation needs it whole cut its longest parallel iterator instead."""
        iterators, cuts = operation.interface.iterators, self.solution.iterators[operation]
        parallel = [i for i, each in enumerate(iterators) if each.kind == PARALLEL]
        if not parallel:
            return
        longest = max(parallel, key=lambda i: iterators[i].extent)
        for operand, by in zip(operation.operands, operation.interface.operands):
            if not isinstance(operand, Value):
                continue
            for dim, i in enumerate(by):
                if i is None or iterators[i].kind != WHOLE:
                    continue
                cut = self.solution.cuts.get(Dimension(operand, dim), WHOLE_CUT)
                taken = {axis for each in cuts if each is not None for axis in each.axes}
                held = cuts[longest] or WHOLE_CUT
                free = tuple([axis for axis in cut.axes if axis not in taken])
                if free and held.offsets is None:
                    cuts[longest] = Cut((*held.axes, *free), held.blocks)


def _within(cut: Cut | None, axes: tuple[int, ...]) -> Cut | None:
    """The cut within the blocks of a cut by ``axes``; None where these do not come first."""
    if cut is None or cut.offsets is not None or cut.axes[: len(axes)] != axes:
        return None
    return Cut(cut.axes[len(axes) :], cut.blocks)


def _members(program: Program) -> dict[Value, tuple[Value, ...]]:
    """For every value of a sharding group all values of its group; groups with a value in common are one."""
    found: dict[Value, tuple[Value, ...]] = {}
    for group in program.groups.values():
        joined = tuple(dict.fromkeys([each for value in group for each in found.get(value, (value,))]))
        found |= dict.fromkeys(joined, joined)
    return found
