"""The layouts of a step as attributes, for steps that the types of blocks do not tell a reader how to run.

A function of numpy that blocks compute as whole arrays do needs no more than its operands.  Global types with shardings
as their encodings say what operations on blocks need to know: which cells a block has, for a slice; where blocks of
several extents are cut, for a collective; how many cells there were, for a sum that is finished later, such as that of
a mean.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from spmd_grid.functions.linear.contractions import product
from spmd_grid.grid.layout import Layout
from spmd_grid.program.ir import Constant
from spmd_grid.program.partition.binding import is_plain_call
from spmd_grid.program.partition.steps import Compute, LocalOperand
from spmd_grid.program.text.types import encoded_type, tensor_type

__all__ = ["is_function_of_blocks", "layout_attribute", "step_layouts"]

# Functions of which blocks of the result are those of blocks, as long as no cells are combined.
_CELLWISE = {np.where, np.real, np.imag, np.transpose, np.expand_dims, np.squeeze, np.swapaxes, np.moveaxis, np.copy}
_PRODUCTS = {np.matmul, np.einsum, product, np.dot, np.tensordot, np.outer, np.vecdot}
_EXTREMES = {np.max, np.min, np.all, np.any}
_TOTALS = {np.sum, np.prod}


def is_function_of_blocks(step: Compute) -> bool:
    """Whether numpy's function of the operands' blocks gives the blocks of the results."""
    operation, function = step.operation, step.operation.function
    if step.splits is None or not is_plain_call(operation) or _has_cut_constant(step):
        return False
    if function is None:
        return operation.key == "constrain" or operation.name in ("constant", "astype")
    dtypes = {x.dtype for x in (*operation.values, *operation.results)}
    is_wide = len(dtypes) == 1 and all((x.itemsize >= 4 and x.kind in "fc") or x.itemsize == 8 for x in dtypes)
    return (
        isinstance(function, np.ufunc)
        or function in _CELLWISE
        or (function in _PRODUCTS and is_wide)
        or (function in _EXTREMES and len(operation.operands) == 1 and not _combines(step))  # a block may be empty
        or (function in _TOTALS and is_wide and len(operation.operands) == 1)
    )


def _combines(step: Compute) -> bool:
    """Whether devices find parts of what is combined."""
    assert step.splits is not None  # asked for calls alone
    return bool(step.splits.axes_of_reductions(step.operation.interface))


def _has_cut_constant(step: Compute) -> bool:
    """Whether a plain array is an operand of which each device takes a block."""
    assert step.splits is not None  # asked for calls alone
    by = step.operation.interface.operands
    return any(
        isinstance(x, Constant) and x.shape and bool(step.splits.sharding(dims).sharded_dims)
        for x, dims in zip(step.operation.operands, by)
    )


def layout_attribute(name: str, values: Iterable[LocalOperand]) -> str:
    """Global types with their shardings, by name."""
    return f"{name} = [{', '.join(map(_global_type, values))}]"


def _global_type(x: LocalOperand) -> str:
    if isinstance(x, Constant):
        return tensor_type(x.shape, np.asarray(x.value).dtype)
    return encoded_type(x.sharding, x.shape, x.dtype)


def step_layouts(source: Layout, target: Layout, dtype: np.dtype) -> list[str]:
    """The layouts of a move as attributes."""
    types = [encoded_type(each.sharding, each.global_shape, dtype) for each in (source, target)]
    return [f"{name} = [{kind}]" for name, kind in zip(("sources", "targets"), types)]
