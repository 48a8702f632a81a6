"""scf and func: loops, branches and calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from spmd_grid.dialect.execute.reading import symbol
from spmd_grid.dialect.execute.table import Runner, handles
from spmd_grid.dialect.execute.values import Undefined
from spmd_grid.errors import ShapeError


@handles("func.call")
def _call(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return runner.call(symbol(op, "callee"), operands)


@handles("scf.for")
def _for(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    low, high, step, *carried = operands
    if any(isinstance(x, Undefined) for x in (low, high, step)):
        raise ShapeError("a bound or the step of the loop is undefined on this device")
    if int(step) <= 0:
        raise ShapeError(f"the step is {int(step)}; it must be at least 1")
    kind = low.dtype.type
    for i in range(int(low), int(high), int(step)):
        carried = runner.run_block(op.regions[0].block, [kind(i), *carried])
    return list(carried)


@handles("scf.if")
def _if(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    (condition,) = operands
    if isinstance(condition, Undefined):
        raise ShapeError("the condition is undefined on this device")
    region = op.regions[0 if bool(condition) else 1]
    return runner.run_block(region.block, []) if region.blocks else []


@handles("scf.while")
def _while(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    before, after = op.regions
    values = list(operands)
    while True:
        condition, *values = runner.run_block(before.block, values)
        if not bool(condition):
            return values
        values = runner.run_block(after.block, values)


@handles("scf.execute_region")
def _region(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    return runner.run_block(op.regions[0].block, [])


@handles("scf.parallel")
def _parallel(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    n = len(op.regions[0].block.args)
    if op.results:
        raise ShapeError("scf.parallel with reductions is not executed; use scf.for with iter_args")
    low, high, step = (operands[i * n : (i + 1) * n] for i in range(3))
    ranges = [range(int(a), int(b), int(c)) for a, b, c in zip(low, high, step)]
    for index in np.ndindex(*[len(each) for each in ranges]):
        runner.run_block(op.regions[0].block, [np.int64(each[i]) for each, i in zip(ranges, index)])
    return []


@handles("cf.assert")
def _assert(runner: Runner, op: Operation, operands: Sequence[Any]) -> Any:
    if not bool(operands[0]):
        raise ShapeError(f"the assertion does not hold: {op.attributes.get('msg', op.properties.get('msg', ''))}")
