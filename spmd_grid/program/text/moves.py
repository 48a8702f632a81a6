"""Communication in the dialect: one operation per step of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spmd_grid.grid.layout import Layout
from spmd_grid.program.text.calls import Calls
from spmd_grid.program.text.lines import GRID
from spmd_grid.program.text.types import axes_text, local_extents
from spmd_grid.reshard.planner.steps import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    MARK_PARTIAL,
    REDUCE_SCATTER,
    SLICE,
    Step,
)

__all__ = ["adds_halos", "step_text"]


def step_text(step: Step, name: str, types: tuple[str, str], calls: Calls, layouts: Sequence[str] = ()) -> str:
    """A step on the array ``name``, of the first type, which gives one of the second.

    Moves for which the dialect has no operation are written as calls, with their ``layouts``: swaps and exchanges of
    boxes; the choice of one device that keeps a value, while others hold the identity; and collectives whose types the
    dialect's verifier refuses: global ones, without ``layouts``, or those of blocks that are not of one shape.
    """
    kind, (source, target) = step.kind, types
    if adds_halos(step.source, step.target):
        target_sharding = step.target.sharding
        halos = [n for pair in target_sharding.halo_sizes or () for n in pair]
        axes = axes_text(target_sharding.split_axes)
        return f"shard.update_halo {name} on {GRID} split_axes = {axes} halo_sizes = {halos} : {target}"
    words = _words(step)
    if words is not None and layouts and _is_told(step.source) and _is_told(step.target):
        on = f"{name} on {GRID} grid_axes = {list(step.grid_axes)}"
        shown = "".join(f" {word} = {value}" for word, value in words.items() if value != "sum")  # sum is the default
        return f"shard.{kind} {on}{shown} : {source} -> {target}"
    attributes = [f"grid = {GRID}"]
    if step.grid_axes:
        attributes.append(f"grid_axes = {list(step.grid_axes)}")
    for word, value in (words or {}).items():
        attributes.append(f'{word} = "{value}"' if isinstance(value, str) else f"{word} = {value}")
    if kind == MARK_PARTIAL:
        attributes.append(f'reduction = "{step.target.sharding.partial_kind}"')
    return calls.text(f"spmd_grid.{kind}", [(name, source)], [target], [*attributes, *layouts])


def _words(step: Step) -> dict[str, Any] | None:
    """The words of the dialect's operation beside its axes; None where it has no such operation."""
    kind, dims = step.kind, step.dims
    if kind == ALL_GATHER:
        return {"gather_axis": dims[0]}
    if kind == SLICE and dims:
        return {"slice_axis": dims[0]}
    if kind == ALL_TO_ALL:
        return {"split_axis": dims[0], "concat_axis": dims[1]}
    reduction = {"reduction": step.source.sharding.partial_kind}
    if kind == ALL_REDUCE:
        return reduction
    return {**reduction, "scatter_dim": dims[0]} if kind == REDUCE_SCATTER else None


def _is_told(layout: Layout) -> bool:
    """Whether the type of a block tells the layout: all devices hold blocks of one shape, without halos."""
    sharding = layout.sharding
    return sharding.halo_sizes is None and None not in local_extents(sharding, layout.global_shape)


def adds_halos(source: Layout, target: Layout) -> bool:
    """Whether a step only adds halos."""
    held, wanted = source.sharding, target.sharding
    return wanted.halo_sizes is not None and replace(wanted, halo_sizes=None) == replace(held, halo_sizes=None)
