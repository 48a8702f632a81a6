"""The communications of a schedule: what each moves, along which axes, and for which line of the user's function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from spmd_grid.compute.splits import block_starts
from spmd_grid.grid.layout import Layout
from spmd_grid.links.model import LinkModel
from spmd_grid.program.ir import CallSite, Value
from spmd_grid.program.partition.materialise import Schedule
from spmd_grid.program.partition.steps import LocalValue, Move
from spmd_grid.program.partition.work import hidden_seconds
from spmd_grid.reshard.planner.cost import costs_in_chain
from spmd_grid.reshard.planner.steps import Step

__all__ = ["Communication", "bytes_per_axis", "communications_of", "communications_of_step", "crossed_axes"]


class Communication(NamedTuple):
    """One communication.

    ``grid_axes``: those of its groups, or those along which partners differ.  ``received``: bytes of the busiest
    process; ``seconds`` by the model of the links.  ``name``: that of its plan in reports and traces.
    ``hidden``: the seconds that pass while the process computes, where it is started early.
    """

    kind: str
    grid_axes: tuple[int, ...]
    received: int
    seconds: float
    name: str
    reason: str
    values: tuple[Value, ...]
    source: LocalValue | None = None
    target: LocalValue | None = None
    site: CallSite | None = None
    messages: int = 0
    hidden: float = 0.0


def communications_of(schedule: Schedule) -> list[Communication]:
    """The communications in the order of the program; those that move no bytes are left out.  Local.

    Moves that run together are one communication, of the time of all without the latency of the later ones.
    """
    found: list[Communication] = []
    before = 0
    hidden = hidden_seconds(schedule.steps)
    for step in schedule.steps:
        together = getattr(step, "together", 0)
        for each in communications_of_step(step):
            if id(step) in hidden:
                each = each._replace(hidden=min(hidden[id(step)], each.seconds))
            if together and together == before:
                each = _joined(found.pop(), each)
            found.append(each)
            before = together
    return found


def _joined(one: Communication, other: Communication) -> Communication:
    links = LinkModel()
    seconds = max(other.seconds - other.messages * links.network_latency, 0.0)
    return one._replace(
        received=one.received + other.received,
        seconds=one.seconds + seconds,
        name=f"{one.name} and {other.name}",
        values=(*one.values, *other.values),
    )


def communications_of_step(step: Any) -> Iterator[Communication]:
    """The communications of one step.  Local."""
    if isinstance(step, Move):
        plan = step.plan
        site = step.operation.site if step.operation else None
        for each, cost in zip(plan.steps, costs_in_chain(plan.steps, plan.itemsize, plan.links), strict=True):
            if cost.bytes:
                yield Communication(
                    each.kind,
                    crossed_axes(each),
                    cost.bytes,
                    cost.seconds,
                    plan.name or "",
                    step.reason,
                    (step.source.value,),
                    step.source,
                    step.target,
                    site,
                    cost.messages,
                )
    for kind, axes, received in getattr(step, "exchanges", None) or ():
        links = LinkModel()
        link = links.between(step.results[0].sharding.grid, axes)
        seconds = link.latency + received / link.bandwidth
        name = step.operation.short_title
        values = tuple([each.value for each in step.inputs])
        reason = f"{step.name} finds its partners as it runs: the bytes are an upper bound"
        yield Communication(kind, tuple(axes), received, seconds, name, reason, values, site=step.operation.site)


def crossed_axes(step: Step) -> tuple[int, ...]:
    """The grid axes along which partners of a step differ."""
    if step.grid_axes:
        return step.grid_axes
    held, wanted = step.source, step.target
    grid = held.grid
    if wanted.grid != grid:
        return tuple([axis for axis, n in enumerate(grid.shape) if n > 1])
    axes: set[int] = {*held.sharding.partial_axes} ^ {*wanted.sharding.partial_axes}
    for dim in range(held.ndim):
        if not _is_cut_alike(held, wanted, dim):
            axes |= {*held.sharding.axes_of(dim), *wanted.sharding.axes_of(dim)}
    return tuple(sorted([axis for axis in axes if grid.shape[axis] > 1]))


def _is_cut_alike(held: Layout, wanted: Layout, dim: int) -> bool:
    ours, theirs = held.sharding, wanted.sharding
    if ours.axes_of(dim) != theirs.axes_of(dim) or ours.halo_of(dim) != theirs.halo_of(dim):
        return False
    extent = held.global_shape[dim]
    return block_starts(ours, dim, extent) == block_starts(theirs, dim, extent)


def bytes_per_axis(ndim: int, communications: list[Communication]) -> tuple[int, ...]:
    """For each grid axis, the bytes that the busiest process receives from processes that differ along the axis.

    A communication over several axes counts for each of them.
    """
    return tuple([sum(each.received for each in communications if axis in each.grid_axes) for axis in range(ndim)])
