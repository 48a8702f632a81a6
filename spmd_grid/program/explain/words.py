"""The text of `explain`: a partitioned program, value by value and communication by communication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from spmd_grid.formatting import bytes_text, count_text, seconds_text
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.program.explain.communications import Communication, communications_of
from spmd_grid.program.explain.cost import ProgramCost, cost_of
from spmd_grid.program.ir import Annotation, CallSite, Constant, Operation, Program, Value
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.propagate.solution import Dimension, Reason, Solution

__all__ = ["Explained", "cuts", "explain_program", "explain_value", "value_lines"]


class Explained(Protocol):
    """The part of a `Partition` that is explained."""

    program: Program
    grid: Grid
    solution: Solution
    schedule: Schedule
    annotations: tuple[Annotation, ...]


def explain_program(part: Explained) -> str:
    """All values, all communications, hints that were dropped, and the cost.  Local."""
    program, communications = part.program, communications_of(part.schedule)
    lines = [f"{program.name} on {part.grid}: {count_text(len(program.operations), 'operation')}"]
    for value in program.values:
        lines += ["", *value_lines(part, value)]
    lines += ["", f"{count_text(len(communications), 'communication')}:"]
    for number, each in enumerate(communications, 1):
        lines += _communication_lines(part.grid, number, each)
    if part.solution.dropped:
        lines += ["", "hints that do not hold:"]
        lines += [f"  {_annotation(each)}: {reason}" for each, reason in part.solution.dropped]
    lines += ["", *_cost_lines(part.grid, cost_of(part.schedule))]
    return "\n".join(lines)


def explain_value(part: Explained, value: Value) -> str:
    """One value: its sharding, the way that it came, and the communications that move it.  Local."""
    lines = value_lines(part, value)
    moved = [each for each in communications_of(part.schedule) if value in each.values]
    for number, each in enumerate(moved, 1):
        lines += _communication_lines(part.grid, number, each)
    if not moved:
        lines.append("  it is never moved")
    for annotation, reason in part.solution.dropped:
        if annotation.value is value:
            lines.append(f"  a hint does not hold, {_annotation(annotation)}: {reason}")
    return "\n".join(lines)


# -- values --------------------------------------------------------------------------------------------------------


def value_lines(part: Explained, value: Value) -> list[str]:
    """The sharding of a value, and the way that it came.  Local."""
    program, solution = part.program, part.solution
    sharding = solution.sharding(value)
    defined = next((each for each in program.operations if value in each.results), None)
    origin = "an argument" if defined is None else f"{_call(defined)}{_at(value.site)}"
    kind = f"{value.dtype}{list(value.shape)}"
    lines = [f"%{value.name}: {kind}, {origin}", f"  sharding {cuts(sharding)}"]
    if defined is not None and defined in program.mutations:
        fixed = ", ".join(_axes(part.grid, cut.axes if cut else ()) for cut in solution.iterators[defined])
        lines.append(f"  its operation is cut as the program's mutation says: [{fixed}]")
    required = solution.annotations.get(value)
    if required is not None:
        lines.append(f"  because {_annotation(required)} requires {cuts(required.sharding)}")
    cut = [dim for dim in range(value.ndim) if solution.cuts.get(Dimension(value, dim), None)]
    for dim in cut:
        path = solution.path(Dimension(value, dim))
        axes = solution.cuts[Dimension(value, dim)].axes
        if axes and not (required and len(path) == 1 and path[0][1].annotation is required):
            lines.append(f"  dimension {dim} by {_axes(part.grid, axes)}:")
            lines += [f"    {hop}" for hop in _path_words(part, path)]
    natural = _natural(part, value)
    if natural is not None and natural != sharding:
        lines.append(f"  {defined.name if defined else 'it'} leaves it as {cuts(natural)}")
    if not cut and required is None:
        lines.append("  whole on every device: no annotation reached it")
    return lines


def _natural(part: Explained, value: Value) -> Sharding | None:
    """The sharding in which the operation leaves its result, where that is partial."""
    for step in part.schedule.steps:
        for result in step.results:
            if result.value is value and result.shape == value.shape:
                return result.sharding if result.is_partial else None
    return None


def _path_words(part: Explained, path: Sequence[tuple[Dimension, Reason]]) -> list[str]:
    """The way of a cut from its annotation, told backwards."""
    words = []
    for (_, reason), follows in zip(path, [*path[1:], (None, None)]):
        if reason.annotation is not None:
            words.append(f"by {_annotation(reason.annotation)}")
        elif reason.operation is not None:
            source = follows[0] or reason.source
            given = (
                f", from dimension {source.dim} of %{source.value.name}" if source is not None else _fixed(part, reason)
            )
            words.append(f"through {reason.operation.name}{_at(reason.operation.site)}{given}")
        else:
            words.append("by its sharding group")
    return words


def _fixed(part: Explained, reason: Reason) -> str:
    """The origin of a cut of an operation's iterator that no value has."""
    operation = reason.operation
    if operation in part.program.mutations:
        return ", whose cut the program's mutation fixes"
    for value in operation.results if operation else ():
        annotation = part.solution.annotations.get(value)
        if annotation is not None and annotation.sharding.partial_axes:
            return f", whose reduction is cut because %{value.name} is partial, by {_annotation(annotation)}"
    return ""


# -- communications and cost ---------------------------------------------------------------------------------------


def _communication_lines(grid: Grid, number: int, each: Communication) -> list[str]:
    lines = [
        f"  {number}. {each.kind} over {_axes(grid, each.grid_axes)}: {each.name}",
        f"     a process receives up to {bytes_text(each.received)}, {seconds_text(each.seconds)} by the model",
    ]
    if each.source is not None and each.target is not None:
        lines.append(f"     from {cuts(each.source.sharding)} to {cuts(each.target.sharding)}: {each.reason}")
    elif each.reason:
        lines.append(f"     {each.reason}")
    if each.hidden:
        lines.append(f"     started early, waited for late: computation hides {seconds_text(each.hidden)} of it")
    return lines


def _cost_lines(grid: Grid, cost: ProgramCost) -> list[str]:
    names = grid.axis_names or range(grid.ndim)
    by_axis = ", ".join(f"axis {name}: {bytes_text(n)}" for name, n in zip(names, cost.bytes_per_axis))
    return [
        f"in all a process receives up to {bytes_text(cost.received)} ({by_axis})",
        f"{seconds_text(cost.seconds)} by the model; {cost.flops:,} floating-point operations, of which"
        f" {cost.redundant_flops:,} are done by other processes too; at most {bytes_text(cost.peak_bytes)} held",
    ]


# -- words ---------------------------------------------------------------------------------------------------------


def _axes(grid: Grid, axes: Sequence[int]) -> str:
    """Grid axes by their names, where they have any."""
    return f"[{', '.join(str(grid.axis_names[axis] if grid.axis_names else axis) for axis in axes)}]"


def _call(operation: Operation) -> str:
    shown = []
    for x in operation.operands:
        shown.append(f"%{x.name}" if isinstance(x, Value) else _constant(x))
    return f"{operation.name}({', '.join(shown)})"


def _constant(x: Constant) -> str:
    return f"a constant {list(x.shape)}" if x.shape else str(x.value)


def _at(site: CallSite | None) -> str:
    return f" at {site.short}" if site else ""


def _annotation(annotation: Annotation) -> str:
    return f"{annotation.origin}{_at(annotation.site)}"


def cuts(sharding: Sharding) -> str:
    """The sharding without its grid."""
    return str(sharding).replace(f" on {sharding.grid}", "")
