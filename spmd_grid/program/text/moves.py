"""Communication in the dialect: one operation per step of a plan."""

from __future__ import annotations

from dataclasses import replace

from spmd_grid.grid.layout import Layout
from spmd_grid.program.text.lines import GRID
from spmd_grid.program.text.types import axes_text
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


def step_text(step: Step, name: str, source: str, target: str) -> str:
    """A step on the array ``name``, of type ``source``, which gives one of type ``target``.

    What the dialect has no operation for is written in generic form: swaps and exchanges of boxes, and the choice of
    one device that keeps a value of which others hold the identity.
    """
    kind, dims = step.kind, step.dims
    on, types = f"{name} on {GRID} grid_axes = {list(step.grid_axes)}", f" : {source} -> {target}"
    reduction = f" reduction = <{step.source.sharding.partial_kind}>"
    if kind == ALL_GATHER:
        return f"shard.all_gather {on} gather_axis = {dims[0]}{types}"
    if kind == SLICE and dims:
        return f"shard.all_slice {on} slice_axis = {dims[0]}{types}"
    if kind == ALL_REDUCE:
        return f"shard.all_reduce {on}{reduction}{types}"
    if kind == REDUCE_SCATTER:
        return f"shard.reduce_scatter {on}{reduction} scatter_dim = {dims[0]}{types}"
    if kind == ALL_TO_ALL:
        return f"shard.all_to_all {on} split_axis = {dims[0]} concat_axis = {dims[1]}{types}"
    if adds_halos(step.source, step.target):
        target_sharding = step.target.sharding
        halos = [n for pair in target_sharding.halo_sizes or () for n in pair]
        axes = axes_text(target_sharding.split_axes)
        return f"shard.update_halo {name} on {GRID} split_axes = {axes} halo_sizes = {halos} : {target}"
    attributes = [f"grid = {GRID}"]
    if step.grid_axes:
        attributes.append(f"grid_axes = {list(step.grid_axes)}")
    if kind == MARK_PARTIAL:
        attributes.append(f'kind = "{step.target.sharding.partial_kind}"')
    else:
        attributes += [f'source = "{_cut(step.source)}"', f'target = "{_cut(step.target)}"']
    return f'"spmd_grid.{kind}"({name}) {{{", ".join(attributes)}}} : ({source}) -> {target}'


def _cut(layout: Layout) -> str:
    """The sharding without its grid."""
    return str(layout.sharding).replace(f" on {layout.grid}", "")


def adds_halos(source: Layout, target: Layout) -> bool:
    """Whether a step only adds halos."""
    held, wanted = source.sharding, target.sharding
    return wanted.halo_sizes is not None and replace(wanted, halo_sizes=None) == replace(held, halo_sizes=None)
