"""The operations that reshard: `run_plan` for a plan made before, `reshard` for one that is found by its arguments.

Both make a `PreparedReshard` (``executor/prepared_reshard.py``) and run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spmd_grid.errors import ShardingError
from spmd_grid.exchange.paths import chosen_path
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.links.known import known_links
from spmd_grid.links.model import LinkModel
from spmd_grid.ops.calls.arguments import gate_of, hashable
from spmd_grid.reshard.executor.arguments import DTypes, LocalArrays, LocalResult
from spmd_grid.reshard.executor.prepared_reshard import PreparedReshard, prepare, run_quickly
from spmd_grid.reshard.executor.specification import ReshardSpecification
from spmd_grid.reshard.plan import Plan, check_plan_options, plan_reshard
from spmd_grid.reshard.plan_value import values_digest
from spmd_grid.transport.communicator import Communicator
from spmd_grid.typing import Shape

__all__ = ["reshard", "reshard_local", "run_plan"]


def run_plan(plan: Plan, local: LocalArrays, grid: ProcessGrid, out: LocalArrays = None) -> LocalResult:
    """Run a plan: `Plan.run` as a function.

    Collective over the processes of both layouts' grids; others may call it, and get None.  Where they are on several
    nodes, it waits only for those between which boxes move, directly or through others, and raises the same error on
    these.  ``local``: shape of the source's local array, halos included, of the plan's dtype; None on a process outside
    the source's grid.  ``grid``: bound to the grid of either layout.  Result: a new array of the shape of the target's
    local array, or ``out``, which may be ``local`` itself where the shapes are equal; cells outside the domain are 0.
    None on a process outside the target's grid.  Where the plan is for a list of dtypes, ``local``, ``out`` and the
    result are lists.

    Raises `ShapeError`, `DTypeError`, `OutputError`, `MismatchError` and `GridError`.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2,))
    ...     rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
    ...     plan = sg.plan_reshard(rows, columns, (4, 3), "int64")
    ...     local = np.arange(12).reshape(4, 3)[rows.shard_slices((4, 3), grid.coords)]
    ...     return sg.run_plan(plan, local, grid).tolist()
    >>> sg.run_spmd(body, ranks=2)[1]
    [[2], [5], [8], [11]]
    """
    if not isinstance(plan, Plan):
        raise ShardingError(f"run_plan: plan is {plan!r}; it must be a Plan, as plan_reshard makes them")
    return run_quickly(plan, local, grid, out)


@dataclass(frozen=True)
class ReshardRequest:
    """A resharding as all processes ask for it alike, before all of them know the dtype."""

    source: Sharding
    target: Sharding
    global_shape: tuple[int, ...]
    strategy: str
    memory_limit: int | None
    links: LinkModel | None

    @property
    def signature(self) -> str:
        """A line that is equal only for equal requests."""
        limit = "" if self.memory_limit is None else f", at most {self.memory_limit} bytes"
        shown = f"{self.source} -> {self.target}, global shape {self.global_shape}, {self.strategy}{limit}"
        return f"{shown} #{values_digest(self)}"

    def plan_for(self, dtypes: DTypes, comm: Communicator) -> Plan:
        """The plan for arrays of ``dtypes`` on the processes of ``comm``.  Local."""
        links = known_links(comm.process) if self.links is None else self.links
        arguments = self.source, self.target, self.global_shape, list(dtypes), self.strategy
        return plan_reshard(*arguments, memory_limit=self.memory_limit, links=links)


def reshard(
    local: LocalArrays,
    source: Sharding,
    target: Sharding,
    grid: ProcessGrid,
    global_shape: Sequence[int],
    out: LocalArrays = None,
    *,
    strategy: str = "auto",
    memory_limit: int | None = None,
    links: LinkModel | None = None,
) -> LocalResult:
    """Move this process's local array from one sharding of a global array to another.

    Collective over the processes of both shardings' grids.  Arguments, result and errors as for `plan_reshard` and
    `run_plan`; the plan is kept, and found again by these arguments.  Several arrays, of any dtypes, share one exchange
    where ``local`` is a list; then ``out`` and the result are lists.  Without ``links``, the plan takes into account
    which processes share a node, as ``grid.links()`` says.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2,))
    ...     split = sg.Sharding(grid, [[0]])
    ...     return sg.reshard(np.full(1, grid.rank), split, sg.Sharding(grid, [[]]), grid, (2,)).tolist()
    >>> sg.run_spmd(body, ranks=2)
    [[0, 1], [0, 1]]
    """
    arguments = local, source, target, grid, global_shape, out, strategy, memory_limit, links
    return gate_of("reshard", grid).run("reshard", reshard_local, *arguments)


def reshard_local(
    local: LocalArrays,
    source: Sharding,
    target: Sharding,
    grid: ProcessGrid,
    global_shape: Sequence[int],
    out: LocalArrays = None,
    strategy: str = "auto",
    memory_limit: int | None = None,
    links: LinkModel | None = None,
) -> LocalResult:
    """Reshard, as a part of an operation that has gone through the gate.  As `reshard`."""
    shape = hashable(global_shape)
    key = (
        "reshard",
        source,
        target,
        shape,
        strategy,
        memory_limit,
        links,
        chosen_path(),
        grid.process.gate.thread_name(),
    )
    prepared: PreparedReshard | None = None
    try:
        prepared = grid.calls[key]
    except (KeyError, TypeError):
        pass
    if prepared is None:
        prepared = prepare("reshard", key, grid, _specify(source, target, shape, strategy, memory_limit, links))
    return prepared.run(local, out)


def _specify(
    source: Sharding,
    target: Sharding,
    global_shape: Shape,
    strategy: str,
    memory_limit: int | None,
    links: LinkModel | None,
) -> ReshardSpecification:
    """The arguments of `reshard`, checked.  Raises ShardingError."""
    for name, sharding in (("source", source), ("target", target)):
        if not isinstance(sharding, Sharding):
            raise ShardingError(f"reshard: {name} is {sharding!r}; it must be a Sharding")
    before, after = Layout(source, global_shape), Layout(target, global_shape)
    check_plan_options("reshard", strategy, memory_limit, links)
    request = ReshardRequest(source, target, before.global_shape, strategy, memory_limit, links)
    has_choice = strategy == "auto" and memory_limit is None and links is None
    return ReshardSpecification(before, after, request.signature, request.plan_for, has_choice=has_choice)
