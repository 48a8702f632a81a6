"""The linear algebra extension of the array API.  All functions are collective over the grid.

Factorisations, which need matrices whole on a process, have no sharding rule: they raise `ImplicitGatherError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from spmd_grid.array.sharded_array import ShardedArray
from spmd_grid.array_api.arrays import as_result, as_sharded
from spmd_grid.array_api.linear_algebra import matmul, matrix_transpose, tensordot, vecdot
from spmd_grid.functions.axes import Axis

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

# numpy's annotations know no arrays but numpy's.
_linalg: Any = np.linalg


def _called(name: str, x: ShardedArray, *others: Any, **options: Any) -> Any:
    """numpy's function of this name in its linalg, by the table of rules."""
    first = as_sharded(name, x)
    found = getattr(_linalg, name)(first, *others, **options)
    return tuple([as_result(each, first) for each in found]) if isinstance(found, tuple) else as_result(found, first)


def cross(x1: ShardedArray, x2: ShardedArray, /, *, axis: int = -1) -> ShardedArray:
    """The cross products of vectors of three components along a dimension.  Collective."""
    return _called("cross", x1, as_sharded("cross", x2), axis=axis)


def diagonal(x: ShardedArray, /, *, offset: int = 0) -> ShardedArray:
    """The diagonals of matrices.  Collective."""
    return _called("diagonal", x, offset=offset)


def matrix_norm(x: ShardedArray, /, *, keepdims: bool = False, ord: Any = "fro") -> ShardedArray:
    """The norms of matrices; those that need singular values have no rule.  Collective."""
    return _called("matrix_norm", x, keepdims=keepdims, ord=ord)


def matrix_power(x: ShardedArray, n: int, /) -> ShardedArray:
    """The n-th powers of matrices; negative ones have no rule.  Collective."""
    return _called("matrix_power", x, n)


def outer(x1: ShardedArray, x2: ShardedArray, /) -> ShardedArray:
    """The products of all pairs of cells of two vectors.  Collective."""
    return _called("outer", x1, as_sharded("outer", x2))


def trace(x: ShardedArray, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> ShardedArray:
    """The sums of diagonals of matrices.  Collective."""
    return _called("trace", x, offset=offset, dtype=dtype)


def vector_norm(x: ShardedArray, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> ShardedArray:
    """The norms of vectors along dimensions, taken as one; of all cells by default.  Collective."""
    return _called("vector_norm", x, axis=axis, keepdims=keepdims, ord=ord)


# -- functions without a rule --------------------------------------------------------------------------------------


def cholesky(x: ShardedArray, /, *, upper: bool = False) -> ShardedArray:
    """Without a rule: raises `ImplicitGatherError`.  Collective."""
    return _called("cholesky", x, upper=upper)


def det(x: ShardedArray, /) -> ShardedArray:
    """Without a rule: raises `ImplicitGatherError`.  Collective."""
    return _called("det", x)


def eigh(x: ShardedArray, /) -> Sequence[ShardedArray]:
    """Without a rule: raises `ImplicitGatherError`.  Collective."""
    return _called("eigh", x)


def eigvalsh(x: ShardedArray, /) -> ShardedArray:
    """Without a rule: raises `ImplicitGatherError`.  Collective."""
    return _called("eigvalsh", x)


def inv(x: ShardedArray, /) -> ShardedArray:
    """Without a rule: raises `ImplicitGatherError`.  Collective."""
    return _called("inv", x)


def matrix_rank(x: ShardedArray, /, *, rtol: float | ShardedArray | None = None) -> ShardedArray:
    """Without a rule: raises `ImplicitGatherError`.  Collective."""
    return _called("matrix_rank", x, rtol=rtol)


def pinv(x: ShardedArray, /, *, rtol: float | ShardedArray | None = None) -> ShardedArray:
    """Without a rule: raises `ImplicitGatherError`.  Collective."""
    return _called("pinv", x, rtol=rtol)


def qr(x: ShardedArray, /, *, mode: Literal["reduced", "complete"] = "reduced") -> Sequence[ShardedArray]:
    """Without a rule: raises `ImplicitGatherError`.  Collective."""
    return _called("qr", x, mode=mode)


def slogdet(x: ShardedArray, /) -> Sequence[ShardedArray]:
    """Without a rule: raises `ImplicitGatherError`.  Collective."""
    return _called("slogdet", x)


def solve(x1: ShardedArray, x2: ShardedArray, /) -> ShardedArray:
    """Without a rule: raises `ImplicitGatherError`.  Collective."""
    return _called("solve", x1, as_sharded("solve", x2))


def svd(x: ShardedArray, /, *, full_matrices: bool = True) -> Sequence[ShardedArray]:
    """Without a rule: raises `ImplicitGatherError`.  Collective."""
    return _called("svd", x, full_matrices=full_matrices)


def svdvals(x: ShardedArray, /) -> ShardedArray:
    """Without a rule: raises `ImplicitGatherError`.  Collective."""
    return _called("svdvals", x)
