"""A plan as data: its steps, and what they move, cost and need in memory, as plain geometry.

No process is needed.  The bytes are those that a run moves; the seconds are those of a model of the links.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from hashlib import blake2b
from math import prod
from typing import NamedTuple

import numpy as np

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.links.copies import copy_seconds
from spmd_grid.links.model import LinkModel
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.planner.choose import Alternative
from spmd_grid.reshard.planner.chunking import chunk_bytes, held_at_once
from spmd_grid.reshard.planner.cost import chain_cost, step_totals
from spmd_grid.reshard.planner.direct import run_steps_of
from spmd_grid.reshard.planner.run_cost import run_seconds
from spmd_grid.reshard.planner.steps import NATIVE, Step
from spmd_grid.reshard.volume.totals import Totals, most_local
from spmd_grid.typing import MultiIndex

__all__ = ["PlanTotals", "PlanValue", "values_digest"]


class PlanTotals(NamedTuple):
    """The bytes that a plan moves from process to process, over all devices.

    ``received``: by all together.  ``most_received``, ``most_sent``: by the busiest device; ``exact`` is False where
    these are upper bounds.  ``peak``: the most memory that a device needs, an upper bound.
    """

    received: int
    most_received: int
    most_sent: int
    peak: int
    exact: bool


@dataclass(frozen=True, repr=False)
class PlanValue:
    """The data of a `Plan`, and what follows from them.  Plans only."""

    source: Layout
    target: Layout
    dtypes: tuple[np.dtype, ...]
    strategy: str
    chosen: str
    steps: tuple[Step, ...]
    alternatives: tuple[Alternative, ...]
    links: LinkModel
    memory_limit: int | None = None
    chunks: int = 1  # the number of pieces that boxes are cut into, where memory is short
    several: bool = False  # whether it is for a list of arrays
    name: str | None = field(default=None, compare=False)  # its name in reports

    @cached_property
    def _hash(self) -> int:
        return hash((self.source, self.target, self.dtypes, self.steps, self.chunks))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, object]:  # cached values are computed again; hashes differ between processes
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the arrays; of the first, where several share the exchange."""
        return self.dtypes[0]

    @cached_property
    def itemsize(self) -> int:
        """Bytes per cell, of all arrays together."""
        return sum(dtype.itemsize for dtype in self.dtypes)

    @cached_property
    def run_steps(self) -> tuple[Step, ...]:
        """The steps as they run, one exchange each: an all_reduce is two of them.  Local."""
        return tuple([each for step in self.steps for each in run_steps_of(step)])

    @cached_property
    def moves(self) -> tuple[Redistribution, ...]:
        """The boxes that every process sends and receives, by run step.  Local."""
        node_size = self.links.node_size
        return tuple(Redistribution(step.source, step.target, self.itemsize, node_size) for step in self.run_steps)

    @cached_property
    def kept_bytes(self) -> int:
        """Upper bound on the bytes that a process keeps between runs: packed messages, and arrays between steps."""
        between = sum(most_local(step.target) for step in self.run_steps[:-1]) * self.itemsize
        each = self._totals_by_step if self.chunks == 1 else []
        return between + sum(totals.most_received + 2 * totals.most_sent for totals in each)

    @cached_property
    def seconds(self) -> float:
        """The time that the steps take, by the model of the links."""
        cost, links = chain_cost(self.steps, self.itemsize, self.links), self.links
        each = max(links.node_latency, links.network_latency) * len(self.steps) + cost.messages * links.message_seconds
        return cost.seconds + (self.chunks - 1) * each

    @cached_property
    def run_seconds(self) -> float:
        """The time of a run: ``seconds``, and the meeting that begins it, of the processes that the plan connects."""
        if not self.run_steps:
            n_bytes = most_local(self.target) * self.itemsize
            return self.links.call_seconds + copy_seconds(self.links, n_bytes, 2 * n_bytes)
        is_one = len(self.dtypes) == 1 and self.chunks == 1
        return run_seconds(self.moves, self.source, self.target, self.seconds, self.links, is_one)

    def bytes_received(self, coords: MultiIndex) -> int:
        """Bytes that the device at ``coords`` of the target's grid receives from other processes.

        Local.  Raises DeviceError.

        >>> from spmd_grid import Sharding, plan_reshard
        >>> grid = Grid((2, 3))
        >>> plan = plan_reshard(Sharding(grid, [[0], [1]]), Sharding(grid, [[1], [0]]), (6, 6), "float64")
        >>> plan.bytes_received((0, 0)), plan.bytes_received((1, 0))
        (16, 48)
        """
        process = _process_at(self.target.grid, coords)
        at = [(move, move.target.grid.coords_of_process(process)) for move in self.moves]
        return sum(piece.box.size for move, c in at if c is not None for piece in move.receives(c)) * self.itemsize

    def bytes_sent(self, coords: MultiIndex) -> int:
        """Bytes that the device at ``coords`` of the source's grid sends to other processes.

        Local.  Raises DeviceError.
        """
        process = _process_at(self.source.grid, coords)
        at = [(move, move.source.grid.coords_of_process(process)) for move in self.moves]
        return sum(piece.box.size for move, c in at if c is not None for piece in move.sends(c)) * self.itemsize

    def peak_bytes(self, coords: MultiIndex) -> int:
        """The most memory that the device at ``coords`` of the target's grid needs.

        Local.  Its arrays on both sides and between steps, contributions to be combined, and messages packed or staged:
        these are kept for the next run, so they add up.  Raises DeviceError.
        """
        process = _process_at(self.target.grid, coords)
        if self.chunks > 1:
            stops = [self.source, *[step.target for step in self.run_steps]]
            arrays = sum(_local_cells(layout, process) for layout in stops) * self.itemsize
            return arrays + max(self._chunk_bytes(move, process) for move in self.moves)
        cells = _local_cells(self.source, process)
        for step, move in zip(self.run_steps, self.moves, strict=True):
            at = move.target.grid.coords_of_process(process)
            if at is not None:
                cells += prod(move.target.local_shape(at)) * (1 + _combined_rows(move, at))
                cells += sum(piece.box.size for piece in move.receives(at))
            at = move.source.grid.coords_of_process(process)
            if at is not None and step.kind in NATIVE:
                cells += _local_cells(move.source, process)  # one message for all
            elif at is not None:
                cells += 2 * sum(piece.box.size for piece in move.sends(at))  # staged, for this run and the next
        if not self.run_steps:
            cells += _local_cells(self.target, process)
        return cells * self.itemsize

    def _chunk_bytes(self, move: Redistribution, process: int) -> int:
        """Upper bound on the bytes of messages, and of contributions to be combined, that are under way at a time."""
        source, target = move.source.grid.coords_of_process(process), move.target.grid.coords_of_process(process)
        cells, boxes = held_at_once(move, source, target)
        return chunk_bytes(cells * self.itemsize, self.chunks, boxes * self.itemsize)

    def totals(self) -> PlanTotals:
        """Bytes over all devices, found without looking at each.  Local.

        >>> from spmd_grid import Sharding, plan_reshard
        >>> grid = Grid((1024, 1024))
        >>> plan = plan_reshard(Sharding(grid, [[0], [1]]), Sharding(grid, [[1], [0]]), (65536, 65536), "float64")
        >>> plan.totals().received, plan.totals().most_received
        (34326183936, 32768)
        """
        return self._totals

    @cached_property
    def _totals(self) -> PlanTotals:
        each = self._totals_by_step
        return PlanTotals(
            sum(totals.received for totals in each),
            sum(totals.most_received for totals in each),
            sum(totals.most_sent for totals in each),
            self._peak,
            all(totals.exact for totals in each) and len(each) < 2,
        )

    @property
    def _totals_by_step(self) -> list[Totals]:
        return [step_totals(step, self.itemsize, self.links.node_size) for step in self.run_steps]

    @property
    def _peak(self) -> int:
        if self.chunks > 1 and self.memory_limit is not None:
            return self.memory_limit
        if not self.steps:
            return (most_local(self.source) + most_local(self.target)) * self.itemsize
        return chain_cost(self.steps, self.itemsize, self.links).peak

    @cached_property
    def text(self) -> str:
        """The plan in a line, equal for equal plans."""
        dtypes = ", ".join(map(str, self.dtypes))
        limit = f", at most {self.memory_limit} bytes" if self.memory_limit is not None else ""
        return f"{self.source} -> {self.target.sharding}, {dtypes}, {self.chosen}{limit}"

    @cached_property
    def signature(self) -> str:
        """A line that is equal only for plans that do the same: the text, and a digest of everything."""
        return f"{self.text} #{values_digest(self.source, self.target, self.run_steps, self.chunks, self.links)}"


def values_digest(*values: object) -> str:
    """Sixteen hexadecimal digits that tell values apart (two in 10^19 agree by chance).  Local."""
    return blake2b(repr(values).encode(), digest_size=8).hexdigest()


def _combined_rows(move: Redistribution, coords: MultiIndex) -> int:
    """The number of contributions that a device collects and then combines; 0 where it combines none."""
    if move.hidden is None:
        return 0
    box = move.target_box(coords)
    rows = box.stops[0] - box.starts[0]
    return rows if rows > 1 else 0


def _local_cells(layout: Layout, process: int) -> int:
    coords = layout.grid.coords_of_process(process)
    return 0 if coords is None else prod(layout.local_shape(coords))


def _process_at(grid: Grid, coords: MultiIndex) -> int:
    return grid.process(grid.linear_index(coords))
