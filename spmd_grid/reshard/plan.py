"""A plan: how to get from one layout to another, as plain geometry that explains itself.

It knows no processes.  What it says of bytes is what `run_plan` moves; its seconds are those of a model of the links.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from hashlib import blake2b
from math import prod
from operator import index
from threading import RLock
from typing import NamedTuple

import numpy as np

from spmd_grid.errors import DTypeError, ReductionError, ShardingError
from spmd_grid.grid.box import as_ints
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.calls.arguments import as_dtype
from spmd_grid.reduction_kind import as_reduction, result_dtype
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.planner.choose import STRATEGIES, Alternative, choose
from spmd_grid.reshard.planner.chunking import chunk_bytes, held_at_once
from spmd_grid.reshard.planner.cost import LinkModel, chain_cost, step_totals
from spmd_grid.reshard.planner.direct import parts_of
from spmd_grid.reshard.planner.steps import NATIVE, Step
from spmd_grid.reshard.volume.totals import Totals, most_local
from spmd_grid.typing import MultiIndex

__all__ = ["Plan", "PlanTotals", "check_options", "digest_of", "plan_reshard"]

# As many plans are kept, by their arguments.
_MOST_PLANS = 256

# Simulated ranks, which are threads, ask for the same plan at the same time: one makes it, the others find it.
_one_at_a_time = RLock()


class PlanTotals(NamedTuple):
    """What a plan moves, over all devices, in bytes from process to process.

    ``received``: by all together.  ``most_received``, ``most_sent``: by the busiest device; ``exact`` where these are
    no upper bounds.  ``peak``: the most memory that a device needs, an upper bound.
    """

    received: int
    most_received: int
    most_sent: int
    peak: int
    exact: bool


@dataclass(frozen=True)
class Plan:
    """A resharding from ``source`` to ``target``, layouts of one global shape, by ``steps``.

    Plans only: a value, equal for equal arguments, and the same on all processes.  ``chosen`` names the way that was
    taken and ``alternatives`` those that lost, and why.  Made by `plan_reshard`, run by `run_plan`.
    """

    source: Layout
    target: Layout
    dtypes: tuple[np.dtype, ...]
    strategy: str
    chosen: str
    steps: tuple[Step, ...]
    alternatives: tuple[Alternative, ...]
    links: LinkModel
    memory_limit: int | None = None
    chunks: int = 1  # how many slices boxes are cut into, where memory is short
    several: bool = False  # whether it is for a list of arrays
    name: str | None = field(default=None, compare=False)  # how reports call it

    @cached_property
    def _hash(self) -> int:
        return hash((self.source, self.target, self.dtypes, self.steps, self.chunks))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self):  # what was found out on the way is found out again; hashes differ between processes
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
    def parts(self) -> tuple[Step, ...]:
        """The steps as they are run, one exchange each.  Local."""
        return tuple([part for step in self.steps for part in parts_of(step)])

    @cached_property
    def moves(self) -> tuple[Redistribution, ...]:
        """What each of the parts moves: who sends which box to whom.  Local."""
        node_size = self.links.node_size
        return tuple(Redistribution(part.source, part.target, self.itemsize, node_size) for part in self.parts)

    @cached_property
    def kept_bytes(self) -> int:
        """At most so many bytes a process keeps between runs: messages packed, and the arrays between steps."""
        between = sum(most_local(part.target) for part in self.parts[:-1]) * self.itemsize
        each = self._totals_of_parts if self.chunks == 1 else []
        return between + sum(totals.most_received + 2 * totals.most_sent for totals in each)

    @cached_property
    def seconds(self) -> float:
        """How long it takes, by the model of the links."""
        cost = chain_cost(self.steps, self.itemsize, self.links)
        latency = max(self.links.node_latency, self.links.network_latency)
        return cost.seconds + (self.chunks - 1) * cost.messages * latency

    def bytes_received(self, coords: MultiIndex) -> int:
        """What the device at ``coords`` of the target's grid gets from other processes.  Local.  Raises DeviceError.

        >>> grid = Grid((2, 3))
        >>> plan = plan_reshard(Sharding(grid, [[0], [1]]), Sharding(grid, [[1], [0]]), (6, 6), "float64")
        >>> plan.bytes_received((0, 0)), plan.bytes_received((1, 0))
        (16, 48)
        """
        return self._bytes(_process_at(self.target.grid, coords), received=True)

    def bytes_sent(self, coords: MultiIndex) -> int:
        """What the device at ``coords`` of the source's grid sends to other processes.  Local.  Raises DeviceError."""
        return self._bytes(_process_at(self.source.grid, coords), received=False)

    def _bytes(self, process: int, received: bool) -> int:
        total = 0
        for move in self.moves:
            coords = _coords_of((move.target if received else move.source).grid, process)
            pieces = [] if coords is None else (move.receives if received else move.sends)(coords)
            total += sum(piece.box.size for piece in pieces) * self.itemsize
        return total

    def peak_bytes(self, coords: MultiIndex) -> int:
        """The most memory that the device at ``coords`` of the target's grid needs.

        Local.  Its arrays on both sides and between steps, what is folded, and messages packed or staged: kept for the
        next run, they add up.  Raises DeviceError.
        """
        process = _process_at(self.target.grid, coords)
        if self.chunks > 1:
            stops = [self.source, *[part.target for part in self.parts]]
            arrays = sum(self._local_cells(layout, process) for layout in stops) * self.itemsize
            return arrays + max(self._chunk_bytes(move, process) for move in self.moves)
        cells = self._local_cells(self.source, process)
        for part, move in zip(self.parts, self.moves, strict=True):
            at = _coords_of(move.target.grid, process)
            if at is not None:
                cells += prod(move.target.local_shape(at)) * (1 + self._rows(move, at))
                cells += sum(piece.box.size for piece in move.receives(at))
            at = _coords_of(move.source.grid, process)
            if at is not None and part.kind in NATIVE:
                cells += self._local_cells(move.source, process)  # one message for all
            elif at is not None:
                cells += 2 * sum(piece.box.size for piece in move.sends(at))  # staged, for this run and the next
        if not self.parts:
            cells += self._local_cells(self.target, process)
        return cells * self.itemsize

    def _chunk_bytes(self, move: Redistribution, process: int) -> int:
        """At most so many bytes of messages, and of what is folded, are under way at a time."""
        ends = [_coords_of(layout.grid, process) for layout in (move.source, move.target)]
        cells, boxes = held_at_once(move, *ends)
        return chunk_bytes(cells * self.itemsize, self.chunks, boxes * self.itemsize)

    @staticmethod
    def _rows(move: Redistribution, coords: MultiIndex) -> int:
        """How many contributions a device collects before it folds them."""
        if move.hidden is None:
            return 0
        box = move.target_box(coords)
        rows = box.stops[0] - box.starts[0]
        return rows if rows > 1 else 0

    @staticmethod
    def _local_cells(layout: Layout, process: int) -> int:
        coords = _coords_of(layout.grid, process)
        return 0 if coords is None else prod(layout.local_shape(coords))

    def totals(self) -> PlanTotals:
        """Bytes over all devices, found without looking at each.  Local.

        >>> grid = Grid((1024, 1024))
        >>> plan = plan_reshard(Sharding(grid, [[0], [1]]), Sharding(grid, [[1], [0]]), (65536, 65536), "float64")
        >>> plan.totals().received, plan.totals().most_received
        (34326183936, 32768)
        """
        return self._totals

    @cached_property
    def _totals(self) -> PlanTotals:
        each = self._totals_of_parts
        return PlanTotals(
            sum(totals.received for totals in each),
            sum(totals.most_received for totals in each),
            sum(totals.most_sent for totals in each),
            self._peak,
            all(totals.exact for totals in each) and len(each) < 2,
        )

    @property
    def _totals_of_parts(self) -> list[Totals]:
        return [step_totals(part, self.itemsize, self.links.node_size) for part in self.parts]

    @property
    def _peak(self) -> int:
        if self.chunks > 1:
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
    def recipe(self) -> str:
        """A line that is equal for plans that do the same, and for no others: the text, and a digest of everything."""
        return f"{self.text} #{digest_of(self.source, self.target, self.parts, self.chunks, self.links)}"

    def __str__(self) -> str:
        from spmd_grid.reshard.explain import explain

        return explain(self)

    def __repr__(self) -> str:
        return f"<Plan {self.text}>"


def plan_reshard(
    source: Sharding,
    target: Sharding,
    global_shape,
    dtype,
    strategy: str = "auto",
    *,
    memory_limit: int | None = None,
    links: LinkModel | None = None,
    name: str | None = None,
) -> Plan:
    """How to bring arrays of ``global_shape`` from one sharding to another.

    Plans only: no processes are needed, nothing is sent; equal arguments give the same plan everywhere.  The shardings
    may differ in everything, grids included.  ``dtype``: one, or a list where several arrays share the exchange.
    ``strategy``: "direct" is one exchange of boxes, "basis" a chain of named collectives, "auto" what a model of the
    ``links`` says is fastest.  ``memory_limit``: the most bytes that a process may use for arrays and messages.
    ``name``: how reports call the plan.

    Raises `ShardingError` where the shape fits neither sharding or no plan keeps to the limit, `DTypeError`,
    `ReductionError` where the partial kind cannot combine the dtype.

    >>> grid = Grid((2, 2))
    >>> plan = plan_reshard(Sharding(grid, [[0, 1]]), Sharding(grid, [[]]), (5, 3), "float32", "basis")
    >>> for step in plan.steps: print(step)
    all_gather over [0, 1], on 0: [[0, 1]] on 2x2 -> [] on 2x2
    """
    for which, sharding in (("source", source), ("target", target)):
        if not isinstance(sharding, Sharding):
            raise ShardingError(f"plan_reshard: {which} is {sharding!r}; it must be a Sharding")
    check_options("plan_reshard", strategy, memory_limit, links)
    several, dtypes = _as_dtypes(dtype)
    shape = as_ints(global_shape)
    if shape is None:
        Layout(source, global_shape)  # refuses it
    limit = None if memory_limit is None else index(memory_limit)
    with _one_at_a_time:
        plan = _plan(source, target, shape, dtypes, strategy, limit, links or LinkModel(), several)
    return plan if name is None else replace(plan, name=name)


def digest_of(*values) -> str:
    """Sixteen hexadecimal digits that tell values apart (two in 10^19 agree by chance).  Local."""
    return blake2b(repr(values).encode(), digest_size=8).hexdigest()


def check_options(op: str, strategy, memory_limit, links) -> None:
    """Refuses what is no strategy, no number of bytes, no model of links.  Local.  Raises ShardingError."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ShardingError(f"{op}: strategy is {strategy!r}; it must be one of {', '.join(STRATEGIES)}")
    if memory_limit is not None and (as_ints((memory_limit,)) or (-1,))[0] < 0:
        raise ShardingError(f"{op}: memory_limit is {memory_limit!r}; it must be a number of bytes, a whole one from 0")
    if links is not None and not isinstance(links, LinkModel):
        raise ShardingError(f"{op}: links is {links!r}; it must be a LinkModel")


@lru_cache(maxsize=_MOST_PLANS)
def _plan(source, target, shape, dtypes, strategy, memory_limit, links, several) -> Plan:
    before, after = Layout(source, shape), Layout(target, shape)
    for sharding in (source, target):
        for dtype in dtypes if sharding.partial_axes else ():
            _check_partial(sharding, dtype)
    itemsize = sum(dtype.itemsize for dtype in dtypes)
    name, steps, lost, chunks = choose(before, after, itemsize, strategy, links, memory_limit)
    return Plan(before, after, dtypes, strategy, name, steps, lost, links, memory_limit, chunks, several)


def _as_dtypes(dtype) -> tuple[bool, tuple[np.dtype, ...]]:
    """Whether there are several, and which; a list of tuples is one structured dtype."""
    several = isinstance(dtype, list | tuple) and not any(isinstance(entry, tuple) for entry in dtype)
    entries = dtype if several else [dtype]
    dtypes = tuple([as_dtype("plan_reshard", np.float64 if entry is None else entry) for entry in entries])
    for each in dtypes:
        if each.hasobject:
            raise DTypeError(f"plan_reshard: dtype {each} holds Python objects; only fixed-size dtypes can be moved")
    if not dtypes:
        raise DTypeError("plan_reshard: dtype is []; it must name at least one")
    return several, dtypes


def _check_partial(sharding: Sharding, dtype: np.dtype) -> None:
    try:
        result = result_dtype(as_reduction(sharding.partial_kind), dtype, None)
    except (DTypeError, ReductionError) as error:
        raise type(error)(f"plan_reshard: {error}") from None
    if result != dtype:
        raise DTypeError(f"plan_reshard: partial {sharding.partial_kind} of dtype {dtype}; it would become {result}")


def _process_at(grid: Grid, coords: MultiIndex) -> int:
    return grid.process(grid.linear_index(coords))


def _coords_of(grid: Grid, process: int) -> MultiIndex | None:
    device = grid.device_of_process(process)
    return None if device is None else grid.multi_index(device)
