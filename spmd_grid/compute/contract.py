"""Contractions: of the layouts that the rule allows, the one that costs least by the model of the links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spmd_grid.compute.apply import apply
from spmd_grid.compute.splits import choose_splits, is_sharded, plain_sharding
from spmd_grid.functions.interface import Application
from spmd_grid.reshard.plan import plan_reshard

__all__ = ["contract"]


def contract(application: Application, out: Sequence[Any] | None = None) -> Any:
    """`apply`, with the operand kept in place whose staying costs least.  Collective over the grid."""
    candidates = [operand for operand in application.operands if is_sharded(operand)]
    if len(candidates) == 1:
        return apply(application, out)
    return apply(application, out, min(candidates, key=lambda operand: _seconds(application, operand)))


def _seconds(application: Application, reference: Any) -> float:
    """What it takes to move the other operands to ``reference``, and to combine partial results.  Plans only."""
    interface = application.interface
    splits = choose_splits(interface, application.operands, reference)
    seconds = 0.0
    for operand, indexing_map in zip(application.operands, interface.operands):
        if not is_sharded(operand):
            continue
        target = splits.sharding(indexing_map)
        if operand.sharding.grid != target.grid:
            return float("inf")
        if plain_sharding(operand.sharding) != target or operand.sharding.partial_axes:
            seconds += plan_reshard(operand.sharding, target, operand.shape, operand.dtype).seconds
    axes = splits.axes_of_reductions(interface)
    if axes:
        whole = splits.sharding(interface.results[0])
        partial = replace(whole, partial_axes=axes)
        seconds += plan_reshard(partial, whole, interface.result_shape(), reference.dtype).seconds
    return seconds
