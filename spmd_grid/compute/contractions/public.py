"""matmul, einsum and tensordot of sharded arrays, with the layout of the result and the memory that they may use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_grid.compute.splits import is_sharded
from spmd_grid.errors import DTypeError
from spmd_grid.functions.linear.contractions import einsum_by_pairs
from spmd_grid.functions.table import call, no_rule
from spmd_grid.grid.sharding import Sharding

__all__ = ["einsum", "matmul", "tensordot"]


def matmul(a: Any, b: Any, *, out_sharding: Sharding | None = None, memory_limit: int | None = None) -> Any:
    """``a @ b`` in the sharding ``out_sharding``; without it, in that which costs least.

    Collective over the grid of the operands, of which at least one is a ShardedArray.  It takes the way to move
    operands and to combine partial sums that needs the least time by the model of the links: a, b or the result stays
    where it is.  Without ``out_sharding``, a dimension of the result is cut as in an operand, or not at all; axes along
    which partial sums are combined replicate the result, or cut a dimension of it as in an operand.  ``out_sharding``
    may have halos, which are filled in the domain, and partial axes: then the result is left partial.  A result without
    dimensions is a number, unless it is partial.

    ``memory_limit``: the most bytes that a process holds besides its shards of operands and result; by default its
    share of half the memory that is free.  If a whole operand would not fit, panels of it are broadcast (SUMMA:
    R. A. van de Geijn, J. Watts, "SUMMA: scalable universal matrix multiplication algorithm", 1997).  Messages between
    nodes are not counted.

    Raises `GridError`, `ShapeError`, `ShardingError`, `ReductionError` and `DTypeError`, the same on every process and
    before anything moves.

    >>> import numpy as np, spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((3,))
    ...     a = sg.from_function(lambda i, j: i + 2 * j, (3, 4), sg.Sharding(grid, [[], [0]]), grid)
    ...     columns = sg.matmul(a, np.ones((4, 5), int), out_sharding=sg.Sharding(grid, [[], [0]]))
    ...     return columns.local.tolist()
    >>> sg.run_spmd(body, ranks=3)[2]
    [[12], [16], [20]]
    """
    _check_any("matmul", a, b)
    return call(np.matmul, a, b, out_sharding=out_sharding, memory_limit=memory_limit)


def tensordot(
    a: Any,
    b: Any,
    axes: int | Sequence[int | Sequence[int]] = 2,
    *,
    out_sharding: Sharding | None = None,
    memory_limit: int | None = None,
) -> Any:
    """np.tensordot in the sharding ``out_sharding``; without it, in that which costs least.

    Collective over the grid of the operands.  Arguments and errors as of `matmul`.
    """
    _check_any("tensordot", a, b)
    return call(np.tensordot, a, b, axes, out_sharding=out_sharding, memory_limit=memory_limit)


def einsum(
    subscripts: Any, *operands: Any, out_sharding: Sharding | None = None, memory_limit: int | None = None
) -> Any:
    """np.einsum in the sharding ``out_sharding``; without it, in that which costs least.

    Collective over the grid of the operands.  Several operands are contracted by pairs, in the order with the fewest
    multiplications (np.einsum_path); ``out_sharding`` is that of the last pair's result, and ``memory_limit`` holds for
    the last pair.  Subscripts as numpy's, lists included.  Arguments and errors as of `matmul`.

    >>> import spmd_grid as sg
    >>> def body():
    ...     grid = sg.init_grid((2,))
    ...     a = sg.from_function(lambda i, j: i + 2 * j, (3, 3), sg.Sharding(grid, [[0]]), grid)
    ...     return int(sg.einsum("ij,jk,ki->", a, a, a)), sg.einsum("ii->i", a).to_global().tolist()
    >>> sg.run_spmd(body, ranks=2)[0]
    (1053, [0, 3, 6])
    """
    _check_any("einsum", subscripts, *operands)
    try:
        return einsum_by_pairs([subscripts, *operands], out_sharding=out_sharding, memory_limit=memory_limit)
    except NotImplementedError as error:
        raise no_rule(str(error)) from None


def _check_any(name: str, *operands: Any) -> None:
    if not any(map(is_sharded, operands)):
        shown = ", ".join(type(operand).__name__ for operand in operands)
        raise DTypeError(f"{name}: operands are {shown}; one of them must be a ShardedArray")
