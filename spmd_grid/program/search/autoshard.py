"""autoshard: the cheapest of many partitions of a program, found by mutation and search."""

from __future__ import annotations

from collections.abc import Sequence

from spmd_grid.errors import ShardingError, SpmdError
from spmd_grid.formatting import bytes_text
from spmd_grid.grid.box import as_ints
from spmd_grid.grid.sharding import HasGrid, Sharding
from spmd_grid.program.explain.cost import ProgramCost
from spmd_grid.program.ir import Program
from spmd_grid.program.partition.public import Partition, partition
from spmd_grid.program.search.candidates import Candidates

__all__ = ["autoshard"]

# Seconds that a trial is taken to last, per operation of the program.  The budget is turned into a number of trials by
# this rate, and not by a clock: processes that look at their own clocks would stop at different partitions.
_SECONDS_PER_OPERATION = 2e-3
_RESTART = 3  # the number of trials after which changes are made to the start again


def autoshard(
    program: Program,
    grid: HasGrid,
    seconds: float = 5.0,
    in_shardings: Sequence[Sharding | None] | Sharding | None = None,
    out_shardings: Sequence[Sharding | None] | Sharding | None = None,
    memory_limit: int | None = None,
    seed: int = 0,
    *,
    optimise: bool = True,
    args: str = "local",
    reproducible: bool = False,
) -> Partition:
    """A partition that is at least as cheap as propagation's, by `Partition.cost`: its seconds, then its bytes.

    Plans only; the same on every process, and for every run with one ``seed``.  Starts from what `partition` finds, and
    changes the cut of operations and of arguments that have no sharding in ``in_shardings`` and no annotation, as
    `Program.mutate` does; what is cheaper stays.  ``seconds``: about the time to search, which fixes the number of
    trials.  ``memory_limit``: the most bytes that a process may hold.  Other options: those of `partition`.

    Sources: the RFC's sharding mutations; stochastic hill climbing with several changes at a time.  Raises
    ShardingError where nothing keeps to the limit, and what `partition` raises.

    >>> import numpy as np, spmd_grid as sg
    >>> specs = sg.ArraySpec((512, 64)), sg.ArraySpec((64, 512)), sg.ArraySpec((512, 64))
    >>> program, grid = sg.trace(lambda x, v, w: (x @ v) @ w, *specs), sg.Grid((4,))
    >>> whole, found = sg.partition(program, grid), sg.autoshard(program, grid, seconds=0.5)
    >>> found.cost().seconds < whole.cost().seconds / 2
    True
    """
    _check(seconds, memory_limit)

    def tried(changed: Program) -> Partition:
        return partition(changed, grid, in_shardings, out_shardings, optimise, args, reproducible=reproducible)

    start = best = tried(program)
    lowest = _rank(best.cost(), memory_limit)
    annotated = {each.value for each in best.annotations if each.required}
    candidates = Candidates([value for value in program.arguments if value not in annotated], seed)
    n_trials = int(seconds / (_SECONDS_PER_OPERATION * max(len(program.operations), 1)))
    for trial in range(n_trials):
        try:
            found = tried(candidates.draw(start if trial % _RESTART == 0 else best))
            rank = _rank(found.cost(), memory_limit)
        except SpmdError:  # a change that another annotation excludes
            continue
        if rank < lowest:
            best, lowest = found, rank
    if memory_limit is not None and lowest[0]:
        raise ShardingError(
            f"autoshard: memory_limit is {memory_limit} bytes per process; the least of {n_trials + 1} partitions of"
            f" {program.name} needs {bytes_text(best.cost().peak_bytes)}"
        )
    return best


def _rank(cost: ProgramCost, memory_limit: int | None) -> tuple[int, float, int]:
    """The order of partitions: first by what they hold beyond the limit."""
    beyond = 0 if memory_limit is None else max(cost.peak_bytes - memory_limit, 0)
    return beyond, cost.seconds, cost.received


def _check(seconds: float, memory_limit: int | None) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
        raise ShardingError(f"autoshard: seconds is {seconds!r}; it must be a number from 0")
    if memory_limit is not None and (as_ints((memory_limit,)) or (-1,))[0] < 0:
        raise ShardingError(
            f"autoshard: memory_limit is {memory_limit!r}; it must be a whole number of bytes, at least 0"
        )
