"""Groups of processes that a text lists by number, as stablehlo's collectives do.

Processes form a grid of replicas by partitions, whose sizes a module says by ``mhlo.num_replicas`` and
``mhlo.num_partitions``.  If it says neither, its groups tell: they have every replica once, or every partition.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import Operation

from spmd_grid.dialect.execute.faults import ExecutionError
from spmd_grid.dialect.execute.reading import attribute, cells_of, has, integer, name_of
from spmd_grid.dialect.syntax.other_dialects.stablehlo.collectives import HloCollectiveOp
from spmd_grid.dialect.syntax.positions import known_position

__all__ = ["Processes", "groups_of", "pairs_of", "all_processes", "wanted_processes"]

Group = tuple[int, ...]


class Processes(NamedTuple):
    """A grid of processes; the number of one is ``replica * partitions + partition``."""

    replicas: int
    partitions: int


def _said(module: Operation) -> Processes | None:
    """The grid that a module says; None where it says none."""
    words = "mhlo.num_replicas", "mhlo.num_partitions"
    if all(attribute(module, word) is None for word in words):
        return None
    replicas, partitions = (integer(module, word, default=1) for word in words)
    if replicas < 1 or partitions < 1:
        raise ExecutionError(
            f"the module says {replicas} replicas and {partitions} partitions; both must be at least 1",
            known_position(module),
        )
    return Processes(replicas, partitions)


def wanted_processes(module: Operation) -> int | None:
    """The number of processes that a module's groups need; None where it has no groups."""
    said = _said(module)
    if said is not None:
        return said.replicas * said.partitions
    words = "replica_groups", "source_target_pairs"
    ops = [op for op in module.walk() if isinstance(op, HloCollectiveOp)]
    numbers = [n for op in ops for word in words for group in _lists(op, word) for n in group]
    return max(numbers) + 1 if numbers else None


def all_processes(op: Operation, size: int) -> Processes:
    """The grid of all ``size`` processes, for the module that an operation stands in.  Raises ExecutionError."""
    module = op
    while (around := module.parent_op()) is not None:
        module = around
    said = _said(module)
    if said is not None:
        if said.replicas * said.partitions != size:
            raise ExecutionError(
                f"the module has {said.replicas} replicas and {said.partitions} partitions; there are {size} processes",
                known_position(module),
            )
        return said
    found = Processes(size, 1)
    for each in module.walk():
        if name_of(each) == "stablehlo.partition_id":
            found = Processes(1, size)
    for each in module.walk():
        if isinstance(each, HloCollectiveOp) and "replica_groups" in each.properties:
            wanted = _wanted(each, size)
            if wanted is not None:
                return wanted
        elif isinstance(each, HloCollectiveOp) and each.channel > 0:
            found = Processes(1, size)
    return found


def _wanted(op: HloCollectiveOp, size: int) -> Processes | None:
    """The grid in which the groups of a collective have every process once; None where any has."""
    count, way = sum(map(len, _lists(op, "replica_groups"))), _way(op)
    if not count or size % count or way == "flattened" or name_of(op) == "stablehlo.collective_broadcast":
        return None
    return Processes(size // count, count) if way == "partitions" else Processes(count, size // count)


def _way(op: HloCollectiveOp) -> str:
    """The meaning of the numbers of a collective's groups."""
    if has(op, "use_global_device_ids"):
        return "flattened"
    if op.channel <= 0:
        return "replicas"
    pairwise = "stablehlo.all_to_all", "stablehlo.collective_broadcast", "stablehlo.collective_permute"
    return "partitions" if name_of(op) in pairwise else "both"


def groups_of(op: HloCollectiveOp, processes: Processes) -> list[Group]:
    """The groups of a collective, by numbers of processes.  Raises ExecutionError."""
    replicas, partitions = processes
    lists, way = _lists(op, "replica_groups"), _way(op)
    count = {"flattened": replicas * partitions, "partitions": partitions}.get(way, replicas)
    lists = lists if any(lists) else [tuple(range(count))]
    may_leave_out = name_of(op) == "stablehlo.collective_broadcast"
    numbers = sorted(n for group in lists for n in group)
    if (numbers and numbers[-1] >= count) or (len(numbers) < count and not may_leave_out):
        what = {"flattened": "processes", "partitions": "partitions"}.get(way, "replicas")
        raise ExecutionError(
            f"{name_of(op)}: replica_groups has {[list(group) for group in lists]}; there are {count} {what}"
            f"{'' if may_leave_out else ', each of which must be in one group'}",
            known_position(op),
        )
    if way == "flattened":
        return lists
    if way == "partitions":
        return [tuple([r * partitions + p for p in group]) for group in lists for r in range(replicas)]
    if way == "both":
        return [tuple([r * partitions + p for p in range(partitions) for r in group]) for group in lists]
    return [tuple([r * partitions + p for r in group]) for group in lists for p in range(partitions)]


def pairs_of(op: HloCollectiveOp, processes: Processes) -> list[Group]:
    """The pairs of a permutation, source and target, by numbers of processes.  Raises ExecutionError."""
    replicas, partitions = processes
    pairs, crosses = _lists(op, "source_target_pairs"), op.channel > 0
    count = partitions if crosses else replicas
    if any(n >= count for pair in pairs for n in pair):
        raise ExecutionError(
            f"{name_of(op)}: source_target_pairs has {[list(pair) for pair in pairs]}; there are {count}"
            f" {'partitions' if crosses else 'replicas'}",
            known_position(op),
        )
    if crosses:
        return [tuple([r * partitions + p for p in pair]) for pair in pairs for r in range(replicas)]
    return [tuple([r * partitions + p for r in pair]) for pair in pairs for p in range(partitions)]


def _lists(op: Operation, word: str) -> list[Group]:
    """The lists of numbers of an attribute, without the -1 that fill shorter ones."""
    found = attribute(op, word)
    if found is None:
        return []
    return [tuple([int(n) for n in row if n >= 0]) for row in cells_of(found)]
