"""Contractions: of the layouts that the rule allows, the one that costs least by the model of the links."""

from __future__ import annotations

from dataclasses import replace

from spmd_grid.compute.splits import ArrayOnGrid, choose_splits, is_sharded, plain_sharding
from spmd_grid.functions.interface import Application
from spmd_grid.reshard.plan import plan_reshard

__all__ = ["cheapest_reference"]


def cheapest_reference(application: Application) -> ArrayOnGrid | None:
    """The operand whose staying in place costs least; None where there is no choice.  Plans only."""
    candidates = [operand for operand in application.operands if is_sharded(operand)]
    if len(candidates) < 2:
        return None
    return min(candidates, key=lambda operand: _seconds(application, operand))


def _seconds(application: Application, reference: ArrayOnGrid) -> float:
    """The time to move the other operands to ``reference``, and to combine partial results.  Plans only."""
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
