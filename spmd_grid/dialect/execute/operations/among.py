"""stablehlo: collectives of processes that are listed by number, and the numbers of a process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from spmd_grid.dialect.execute.operations.linalg.bodies import looping
from spmd_grid.dialect.execute.process_groups import all_processes, groups_of, pairs_of
from spmd_grid.dialect.execute.reading import dtype_of, integer, name_of
from spmd_grid.dialect.execute.table import Runner, handles, needs_devices
from spmd_grid.dialect.syntax.other_dialects.stablehlo.collectives import HloReducingOp

_KINDS = {
    "stablehlo.add": "sum",
    "stablehlo.multiply": "product",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.and": "bitwise_and",
    "stablehlo.or": "bitwise_or",
    "stablehlo.xor": "bitwise_xor",
}
_OPTIONS: dict[str, dict[str, str]] = {
    "all_gather": {"gather_axis": "all_gather_dim"},
    "all_reduce": {},
    "reduce_scatter": {"scatter_axis": "scatter_dimension"},
    "all_to_all": {"split_axis": "split_dimension", "concat_axis": "concat_dimension"},
    "collective_broadcast": {},
    "collective_permute": {},
}


@handles(*[f"stablehlo.{name}" for name in _OPTIONS])
def _collective(runner: Runner, op: Any, operands: Sequence[Any]) -> Any:
    devices = needs_devices(runner, name_of(op))
    name = name_of(op).removeprefix("stablehlo.")
    options: dict[str, Any] = {given: integer(op, word) for given, word in _OPTIONS[name].items()}
    if name == "collective_permute":
        return _permuted(runner, op, operands)
    groups = runner.kept((op, "groups"), lambda: groups_of(op, all_processes(op, devices.size)))
    group = next((each for each in groups if devices.rank in each), None)
    if name == "collective_broadcast":
        name, options = "broadcast", {"root": (0,)}
    results = []
    for x, result in zip(operands, op.results):
        if isinstance(op, HloReducingOp):
            options |= {"reduction": _reduction(runner, op), "dtype": dtype_of(result.type)}
        found = np.zeros_like(x) if group is None else devices.among(group, name, x, options)
        results.append(found)
    return results


def _permuted(runner: Runner, op: Any, operands: Sequence[Any]) -> list[Any]:
    """The arrays that pairs lead here; zeros where none does."""
    devices = needs_devices(runner, name_of(op))
    pairs = runner.kept((op, "groups"), lambda: pairs_of(op, all_processes(op, devices.size)))
    group = tuple(sorted({n for pair in pairs for n in pair}))
    members = [(group.index(source), group.index(target)) for source, target in pairs]
    results = []
    for x in operands:
        found = devices.among(group, "permute", x, {"pairs": members}) if devices.rank in group else None
        results.append(np.zeros_like(x) if found is None else found)
    return results


def _reduction(runner: Runner, op: HloReducingOp) -> str | Callable[..., Any]:
    """The reduction that a body is: one of the engine's, or a function that runs the body on arrays."""
    kind = _KINDS.get(op.combiner or "")
    if kind is not None:
        return kind

    def combine(a: Any, b: Any) -> Any:
        with looping(runner, ()):
            (found,) = runner.run_block(op.body.block, [a, b])
        return np.broadcast_to(found, np.shape(a)) if np.shape(found) != np.shape(a) else found

    return combine


@handles("stablehlo.replica_id", "stablehlo.partition_id")
def _number(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    devices = needs_devices(runner, name_of(op))
    replica, partition = divmod(devices.rank, all_processes(op, devices.size).partitions)
    return np.asarray(replica if name_of(op) == "stablehlo.replica_id" else partition, np.uint32)
