"""Operations that may be applied to contributions before these are combined.

To partial sums: additions, multiplications by what all contributors hold alike, sums, and products of matrices.  To
partial maxima: maxima; to minima: minima; to partial products: products.  To all: operations that only arrange cells.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from spmd_grid.program.ir import Operation
from spmd_grid.program.partition.steps import Compute

__all__ = ["may_be_partial"]

# By kind: ufuncs of operands that are all partial, in any number.
_ALL_PARTIAL = {
    "sum": (np.add, np.subtract, np.negative, np.positive),
    "max": (np.maximum, np.positive),
    "min": (np.minimum, np.positive),
    "product": (np.multiply, np.positive),
}
# Contractions, which are linear in each operand alone.
_CONTRACTIONS = ("matmul", "einsum", "dot", "tensordot", "inner", "outer", "matvec", "vecmat")
# Reductions that combine what contributors hold in the same way.
_REDUCTIONS = {"sum": (np.sum, np.mean), "max": (np.max, np.amax), "min": (np.min, np.amin), "product": (np.prod,)}
_ARRANGED = ("transpose", "copy", "constrain", "expand_dims", "squeeze", "swapaxes", "moveaxis", "view")


def may_be_partial(step: Compute, which: tuple[int, ...], kind: str) -> bool:
    """Whether a computation may be applied where its operands number ``which`` are partial by ``kind``."""
    operation, function = step.operation, step.operation.function
    operands, (result, *more) = step.operands, step.results
    if more or step.splits is None or any(_dtype(step, i) != result.dtype for i in which) or result.dtype.kind == "b":
        return False
    if operation.name in _ARRANGED and len(operands) == 1:
        return True
    if isinstance(function, np.ufunc) and not _is_plain_call(operation):
        return False
    if function in _ALL_PARTIAL.get(kind, ()):
        return len(which) == len(operands)
    if function in _REDUCTIONS.get(kind, ()):
        return len(operands) == 1 and operation.kind == kind
    if kind != "sum" or len(which) != 1:
        return False
    if function is np.divide or operation.name == "mean_finish":
        return which == (0,) and result.dtype.kind in "fc"
    return function is np.multiply or (operation.name in _CONTRACTIONS and operation.kind in ("", "sum"))


def _dtype(step: Compute, number: int) -> np.dtype | None:
    return getattr(step.operands[number], "dtype", None)


def _is_plain_call(operation: Operation) -> bool:
    """Whether ``local`` is the ufunc itself: no mask, and no other dtype."""
    local = operation.local
    if not isinstance(operation.function, np.ufunc) or operation.function.signature is not None:
        return True
    return isinstance(local, partial) and local.func is operation.function and set(local.keywords) <= {"casting"}
