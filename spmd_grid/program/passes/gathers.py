"""all_gathers moved down: operations work on the blocks that are held, and their results are gathered.

    y = f(all_gather(x))        becomes     y = all_gather(f(x))

where f has a parallel iterator along the gathered dimension.  Each device then computes its own cells of y only, and
where users slice y again nothing is gathered at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from spmd_grid.functions.interface import PARALLEL
from spmd_grid.program.partition.builder import applied, is_at_rest
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.steps import Compute, LocalOperand, LocalValue, Move
from spmd_grid.program.passes.compose import composed
from spmd_grid.program.passes.rewriting import Links, better, computes_of, in_order, moves_of
from spmd_grid.program.propagate.cuts import Cut, cut_of, splits_of_cuts

__all__ = ["gathered_late"]


def gathered_late(schedule: Schedule) -> Schedule:
    """The schedule with all_gathers after the operations that may work on blocks."""
    tried: set[tuple[int, tuple[Cut, ...]]] = set()
    while True:
        found = _improved(schedule, tried)
        if found is None:
            return schedule
        schedule = found


def _improved(schedule: Schedule, tried: set[tuple[int, tuple[Cut, ...]]]) -> Schedule | None:
    links = Links(schedule)
    for step in computes_of(schedule):
        for cuts in _finer_cuts(step, links):
            if (id(step.operation), cuts) not in tried:
                tried.add((id(step.operation), cuts))
                new = _recut(schedule, step, cuts)
                if better(new, schedule):
                    return new
    return None


def _finer_cuts(step: Compute, links: Links) -> Iterator[tuple[Cut, ...]]:
    """Cuts of the step's iterators as those of an operand before it was gathered."""
    splits, interface = step.splits, step.operation.interface
    if splits is None or any(each.is_partial for each in step.inputs):
        return
    held = [
        Cut(axes, splits.blocks, offsets) if axes else Cut(()) for axes, offsets in zip(splits.axes, splits.offsets)
    ]
    for x, by in zip(step.operands, interface.operands):
        move = links.move_to(x)
        if move is None or move.source.is_partial or move.source.sharding.halo_sizes:
            continue
        cuts = list(held)
        used = {axis for cut in held for axis in cut.axes}
        for dim, i in enumerate(by):
            cut = cut_of(move.source.sharding, dim)
            if i is None or interface.iterators[i].kind != PARALLEL or not used.isdisjoint(cut.axes) or held[i].axes:
                continue
            cuts[i] = cut
            used |= set(cut.axes)
        if cuts != held:
            yield tuple(cuts)


def _recut(schedule: Schedule, step: Compute, cuts: tuple[Cut, ...]) -> Schedule:
    """The schedule with the step on other blocks; its operands are brought there, and its results back."""
    interface = step.operation.interface
    assert step.splits is not None  # `_finer_cuts`
    splits = splits_of_cuts(step.splits.grid, cuts, tuple([each.extent for each in interface.iterators]))
    moves = {id(move.target): move for move in moves_of(schedule)}
    operands: list[LocalOperand] = []
    for number, x in enumerate(step.operands):
        if isinstance(x, LocalValue):
            wanted = splits.sharding(interface.operands[number])
            if not is_at_rest(x, wanted):
                target = LocalValue(x.value, x.shape, x.dtype, wanted)
                moves[id(target)] = Move(x, target, step.operation, f"{step.name} takes it so")
                x = target
        operands.append(x)
    new = applied(step.operation, operands, splits)
    for ours, theirs in zip(new.results, step.results):
        moves[id(theirs)] = Move(ours, theirs, step.operation, f"cells of {step.name} are gathered late")
    steps = [new if each is step else each for each in computes_of(schedule)]
    return composed(in_order(schedule, steps, moves.values()))
