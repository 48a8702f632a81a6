"""Plans: how to get from one layout to another, made without processes, run on them, and printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import index
from threading import RLock

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.errors import DTypeError, RequestError, ShardingError
from spmd_grid.grid.box import as_ints
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.grid.sharding import Sharding
from spmd_grid.links.model import LinkModel
from spmd_grid.ops.calls.arguments import as_dtypes
from spmd_grid.reshard.executor.arguments import LocalArrays, LocalResult
from spmd_grid.reshard.executor.prepared_reshard import run_quickly
from spmd_grid.reshard.executor.reshard_run import ReshardRun
from spmd_grid.reshard.explain import explain
from spmd_grid.reshard.plan_value import PlanTotals, PlanValue
from spmd_grid.reshard.planner.choose import STRATEGIES, choose

__all__ = ["Plan", "PlanTotals", "check_plan_options", "plan_reshard"]

# The number of plans that are kept, by their arguments.
_MOST_PLANS = 256

# Simulated ranks, which are threads, ask for the same plan at the same time: one makes it, the others find it.
_one_at_a_time = RLock()


@dataclass(frozen=True, eq=False, repr=False)
class Plan(PlanValue):
    """A resharding from ``source`` to ``target``, layouts of one global shape, by ``steps``.

    Plans only: a value, equal for equal arguments, and the same on all processes.  ``chosen`` names the way that was
    taken and ``alternatives`` those that were not, and why.  Made by `plan_reshard`; ``print`` shows the steps and what
    they cost.
    """

    def run(self, local: LocalArrays, grid: ProcessGrid, out: LocalArrays = None) -> LocalResult:
        """Run the plan: this process's local array in the source's layout in, that in the target's layout out.

        Collective over the processes of both layouts' grids; others may call it, and get None.  Where they are on
        several nodes, it waits only for those between which boxes move, directly or through others, and raises the same
        error on these.  ``local``: shape of the source's local array, halos included, of the plan's dtype; None on a
        process outside the source's grid.  ``grid``: bound to the grid of either layout.  Result: a new array of the
        shape of the target's local array, or ``out``, which may be ``local`` itself where the shapes are equal; cells
        outside the domain are 0.  None on a process outside the target's grid.  Where the plan is for a list of dtypes,
        ``local``, ``out`` and the result are lists.

        The first run checks the plan, compares it between the processes, and makes its buffers; later runs reuse them.

        Raises `ShapeError`, `DTypeError`, `OutputError`, `MismatchError` and `GridError`.

        >>> import spmd_grid as sg
        >>> def body():
        ...     grid = sg.init_grid((2,))
        ...     rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
        ...     plan = sg.plan_reshard(rows, columns, (4, 3), "int64")
        ...     local = np.arange(12).reshape(4, 3)[rows.shard_slices((4, 3), grid.coords)]
        ...     return plan.run(local, grid).tolist()
        >>> sg.run_spmd(body, ranks=2)[1]
        [[2], [5], [8], [11]]
        """
        return run_quickly(self, local, grid, out)

    def bind(self, grid: ProcessGrid) -> ReshardRun:
        """The plan on the processes of ``grid``, for hot loops: ``run(local, out)``, in compiled functions too.

        Local.  Raises GridError where ``grid`` is not that of either layout.

        >>> import numpy as np, spmd_grid as sg
        >>> def body():
        ...     grid = sg.init_grid((2,))
        ...     rows, columns = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[], [0]])
        ...     plan = sg.plan_reshard(rows, columns, (4, 3), "int64").bind(grid)
        ...     local = np.arange(12).reshape(4, 3)[rows.shard_slices((4, 3), grid.coords)]
        ...     return plan.run(local).tolist()
        >>> sg.run_spmd(body, ranks=2)[1]
        [[2], [5], [8], [11]]
        """
        return ReshardRun(self, grid)

    @property
    def _numba_type_(self) -> None:
        """The refusal of compiled functions: numba asks here for the type of an argument.  Raises RequestError."""
        raise RequestError(
            f"a compiled function is given the resharding {self!r}, which no processes run; give it"
            " plan.bind(grid), a HaloExchange, or the plan of an operation"
        )

    def __str__(self) -> str:
        return explain(self)

    def __repr__(self) -> str:
        return f"<Plan {self.text}>"


def plan_reshard(
    source: Sharding,
    target: Sharding,
    global_shape: Sequence[int],
    dtype: DTypeLike | Sequence[DTypeLike],
    strategy: str = "auto",
    *,
    memory_limit: int | None = None,
    links: LinkModel | None = None,
    name: str | None = None,
) -> Plan:
    """Plan how to move arrays of ``global_shape`` from one sharding to another.

    Plans only: no processes are needed, nothing is sent; equal arguments give the same plan everywhere.  The shardings
    may differ in everything, grids included.  ``dtype``: one, or a list where several arrays share the exchange.
    ``strategy``: "direct" is one exchange of boxes, "basis" a chain of named collectives, "auto" the fastest way by a
    model of the ``links``, by default with each process on a node of its own; ``grid.links()`` knows who shares one.
    ``memory_limit``: the most bytes that a process may use for arrays and messages.  ``name``: the plan's name in
    reports.

    Raises `ShardingError` where the shape fits neither sharding or no plan keeps to the limit, `DTypeError`,
    `ReductionError` where the partial kind cannot combine the dtype.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> grid = Grid((2, 2))
    >>> plan = plan_reshard(Sharding(grid, [[0, 1]]), Sharding(grid, [[]]), (5, 3), "float32", "basis")
    >>> for step in plan.steps: print(step)
    all_gather over [0, 1], on 0: [[0, 1]] on 2x2 -> [] on 2x2
    """
    for which, sharding in (("source", source), ("target", target)):
        if not isinstance(sharding, Sharding):
            raise ShardingError(f"plan_reshard: {which} is {sharding!r}; it must be a Sharding")
    check_plan_options("plan_reshard", strategy, memory_limit, links)
    several, dtypes = as_dtypes("plan_reshard", dtype)
    if not dtypes:
        raise DTypeError("plan_reshard: dtype is []; it must name at least one")
    shape = as_ints(global_shape)
    if shape is None:  # the layout refuses it, and says why
        shape = Layout(source, global_shape).global_shape  # type: ignore[arg-type]  # anything may be passed
    limit = None if memory_limit is None else index(memory_limit)
    with _one_at_a_time:
        plan = _plan(source, target, shape, dtypes, strategy, limit, links or LinkModel(), several)
    return plan if name is None else replace(plan, name=name)


def check_plan_options(op: str, strategy: str, memory_limit: int | None, links: LinkModel | None) -> None:
    """Check the options of a plan: a strategy, a number of bytes, a model of links.  Local.  Raises ShardingError."""
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ShardingError(f"{op}: strategy is {strategy!r}; it must be one of {', '.join(STRATEGIES)}")
    if memory_limit is not None and (as_ints((memory_limit,)) or (-1,))[0] < 0:
        raise ShardingError(f"{op}: memory_limit is {memory_limit!r}; it must be a whole number of bytes, at least 0")
    if links is not None and not isinstance(links, LinkModel):
        raise ShardingError(f"{op}: links is {links!r}; it must be a LinkModel")


@lru_cache(maxsize=_MOST_PLANS)
def _plan(
    source: Sharding,
    target: Sharding,
    shape: tuple[int, ...],
    dtypes: tuple[np.dtype, ...],
    strategy: str,
    memory_limit: int | None,
    links: LinkModel,
    several: bool,
) -> Plan:
    before, after = Layout(source, shape), Layout(target, shape)
    for sharding in (source, target):
        for dtype in dtypes:
            sharding.check_dtype("plan_reshard", dtype)
    itemsize = sum(dtype.itemsize for dtype in dtypes)
    name, steps, lost, chunks = choose(before, after, itemsize, strategy, links, memory_limit)
    return Plan(before, after, dtypes, strategy, name, steps, lost, links, memory_limit, chunks, several)
