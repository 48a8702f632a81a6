"""The rows of the operations benchmark: operations, their arguments and sizes; and the correct results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from spmd_grid.formatting import bytes_text
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.ops.all_gather import all_gather
from spmd_grid.ops.all_reduce import all_reduce
from spmd_grid.ops.all_to_all import all_to_all
from spmd_grid.ops.broadcast import broadcast
from spmd_grid.ops.calls.plan import OperationPlan
from spmd_grid.ops.gather import gather
from spmd_grid.ops.reduce_scatter import reduce_scatter
from spmd_grid.ops.scatter import scatter
from spmd_grid.ops.shift import shift

__all__ = ["LEAST_BYTES", "OPS", "Op", "OpsCase", "all_cases", "cut", "one_cut", "quick_cases"]

_SIZES = 8, 1 << 10, 1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 26
_QUICK_SIZES = 8, 1 << 16
LEAST_BYTES = _SIZES[0]
_DOUBLE = 8  # bytes

Arrays = Sequence[np.ndarray]


class Op(NamedTuple):
    """An operation of ours with its arguments, on arrays of ``ndim`` dimensions.

    ``result(xs, rank)``: the correct result of a rank.  ``least_per_rank``: arrays have at least a double for every
    rank; ``times_ranks``: they grow with the number of ranks.
    """

    call: Callable[..., np.ndarray | None]
    arguments: Mapping[str, Any]
    result: Callable[[Arrays, int], np.ndarray | None]
    ndim: int = 1
    least_per_rank: bool = False
    times_ranks: bool = False

    @property
    def plan(self) -> Callable[..., OperationPlan] | None:
        """The function that plans the operation, if it has plans."""
        return getattr(self.call, "plan", None)


def one_cut(ranks: int, shape: Sequence[int], dim: int) -> Layout:
    """An array of ``shape`` cut along ``dim`` on a line of ``ranks``."""
    return Layout(Sharding(Grid((ranks,)), [[0] if each == dim else [] for each in range(len(shape))]), tuple(shape))


def cut(x: np.ndarray, dim: int, ranks: int, rank: int) -> np.ndarray:
    """The block of ``rank``."""
    return x[one_cut(ranks, x.shape, dim).core_box((rank,)).slices()]


def _sum(xs: Arrays) -> np.ndarray:
    return np.sum(xs, axis=0)


def _exchanged(xs: Arrays, rank: int, split: int, concat: int) -> np.ndarray:
    return np.concatenate([cut(x, split, len(xs), rank) for x in xs], concat)


OPS = {
    "all_gather axis 0": Op(all_gather, {"gather_axis": 0}, lambda xs, rank: np.concatenate(xs)),
    "all_gather last axis": Op(all_gather, {"gather_axis": 1}, lambda xs, rank: np.concatenate(xs, 1), ndim=2),
    "broadcast": Op(broadcast, {"root": (0,)}, lambda xs, rank: xs[0]),
    "all_to_all 0 to 1": Op(
        all_to_all,
        {"split_axis": 0, "concat_axis": 1},
        lambda xs, rank: _exchanged(xs, rank, 0, 1),
        ndim=2,
        least_per_rank=True,
    ),
    "all_to_all 1 to 0": Op(
        all_to_all,
        {"split_axis": 1, "concat_axis": 0},
        lambda xs, rank: _exchanged(xs, rank, 1, 0),
        ndim=2,
        least_per_rank=True,
    ),
    "shift": Op(shift, {"shift_axis": 0, "offset": 1, "rotate": True}, lambda xs, rank: xs[rank - 1]),
    "gather": Op(gather, {"gather_axis": 0, "root": (0,)}, lambda xs, rank: None if rank else np.concatenate(xs)),
    "scatter": Op(
        scatter, {"scatter_axis": 0, "root": (0,)}, lambda xs, rank: cut(xs[0], 0, len(xs), rank), times_ranks=True
    ),
    "reduce_scatter": Op(
        reduce_scatter,
        {"reduction": "sum", "scatter_axis": 0},
        lambda xs, rank: cut(_sum(xs), 0, len(xs), rank),
        least_per_rank=True,
    ),
    "all_reduce": Op(all_reduce, {"reduction": "sum"}, lambda xs, rank: _sum(xs)),
}


@dataclass(frozen=True)
class OpsCase:
    """Operation ``op`` on arrays of doubles of ``n_bytes`` on every rank of a line.

    `all_to_all` and `reduce_scatter` have at least a double for every rank; in `scatter` every rank receives
    ``n_bytes``.  The root is rank 0.
    """

    op: str
    n_bytes: int

    @property
    def name(self) -> str:
        return f"{self.op}, {bytes_text(self.n_bytes)}"

    @property
    def family(self) -> str:
        """The name of the rows that differ only in size."""
        return self.op

    def shape(self, ranks: int) -> tuple[int, ...]:
        """The shape of every rank's array; with two dimensions as nearly square as possible."""
        op, n = OPS[self.op], self.n_bytes // _DOUBLE
        if op.ndim == 1:
            return (max(n, ranks) if op.least_per_rank else n * ranks if op.times_ranks else n,)
        rows = 1 << (n.bit_length() - 1) // 2
        shape = [rows, n // rows]
        if op.least_per_rank:
            split = op.arguments["split_axis"]
            shape[split] = max(shape[split], ranks)
        return tuple(shape)

    def arrays(self, ranks: int, first: int = 0) -> list[np.ndarray]:
        """Every rank's array: a different number in every cell, starting with ``first``."""
        shape = self.shape(ranks)
        size = int(np.prod(shape))
        return [
            np.arange(first + rank * size, first + (rank + 1) * size, dtype=float).reshape(shape)
            for rank in range(ranks)
        ]


def all_cases() -> list[OpsCase]:
    return [OpsCase(op, n_bytes) for op in OPS for n_bytes in _SIZES]


def quick_cases() -> list[OpsCase]:
    """Every operation on few bytes."""
    return [OpsCase(op, n_bytes) for op in OPS for n_bytes in _QUICK_SIZES]
