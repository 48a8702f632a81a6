"""The price of a program: seconds of its steps one after the other, and what the sharing of links adds to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from spmd_grid.errors import ShardingError
from spmd_grid.formatting import aligned, seconds_text
from spmd_grid.grid.device_grid import Grid
from spmd_grid.links.costs import operation_seconds
from spmd_grid.links.model import LinkModel
from spmd_grid.pricing.halos import halo_seconds
from spmd_grid.pricing.steps import HaloExchangeStep, OperationStep, Step

__all__ = ["PricedStep", "machine_links", "price", "price_text"]


class PricedStep(NamedTuple):
    """A step, the seconds of one run, and those that it would take if every process had its links for itself."""

    step: Step
    seconds: float
    alone: float


def machine_links(
    links: LinkModel, nodes: int, ranks_per_node: int, grid: Grid, taper: float | None = None
) -> LinkModel:
    """``links`` for a machine of ``nodes`` with ``ranks_per_node`` consecutive processes each.

    Plans only.  Bandwidths of a node stay as they are, however many processes share them.  Raises ShardingError where
    the grid needs more processes.
    """
    if grid.size > nodes * ranks_per_node:
        raise ShardingError(
            f"the grid {grid} has {grid.size} devices; {nodes} nodes of {ranks_per_node} have"
            f" {nodes * ranks_per_node} processes"
        )
    taper = links.taper if taper is None else taper
    return replace(links, nodes=None, node_size=ranks_per_node, machine=None, taper=taper)


def price(steps: Sequence[Step], grid: Grid, links: LinkModel) -> list[PricedStep]:
    """The seconds of every step on ``grid``.  Plans only; takes no longer for a million devices."""
    unshared = replace(links, cable_bandwidth=None, bus_bandwidth=None, machine=None)
    return [PricedStep(step, *[_seconds(step, grid, each) for each in (links, unshared)]) for step in steps]


def _seconds(step: Step, grid: Grid, links: LinkModel) -> float:
    if isinstance(step, HaloExchangeStep):
        return halo_seconds(step.pattern, step.itemsize, links, step.fields)
    if isinstance(step, OperationStep):
        return operation_seconds(step.name, step.n_bytes, grid, step.axes, links)
    return replace(step.plan, links=links).run_seconds


_UNSHARED = "unshared: if every process had its links for itself"


def price_text(priced: Sequence[PricedStep], grid: Grid, links: LinkModel) -> str:
    """A table of priced steps, and their total.  Plans only."""
    total = sum(each.seconds * each.step.times for each in priced)
    alone = sum(each.alone * each.step.times for each in priced)
    rows = [("step", "times", "each", "together", "share", "unshared")]
    for each in priced:
        times = each.step.times
        rows.append(
            (
                each.step.text,
                str(times),
                seconds_text(each.seconds),
                seconds_text(times * each.seconds),
                f"{100 * times * each.seconds / total:.0f} %" if total else "-",
                seconds_text(times * each.alone),
            )
        )
    rows.append(("in all", "", "", seconds_text(total), "", seconds_text(alone)))
    shape = "x".join(map(str, grid.shape))
    n_nodes = -(-grid.size // links.node_size)
    where = f"{n_nodes:,} nodes of {links.node_size}" if links.nodes is None else f"{len(set(links.nodes))} nodes"
    return "\n".join([f"grid {shape}: {grid.size:,} processes on {where}", *aligned(rows), _UNSHARED])
