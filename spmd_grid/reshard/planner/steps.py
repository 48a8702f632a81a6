"""A step of a plan: its kind, and the layouts between which it moves."""

from __future__ import annotations

from dataclasses import dataclass

from spmd_grid.errors import ShardingError
from spmd_grid.grid.layout import Layout

__all__ = [
    "ALL_GATHER",
    "ALL_REDUCE",
    "ALL_TO_ALL",
    "BROADCAST",
    "EXCHANGE",
    "STEP_KINDS",
    "MARK_PARTIAL",
    "NATIVE",
    "REDUCE_SCATTER",
    "SLICE",
    "SWAP",
    "Step",
]

# Local: no process sends anything.
SLICE, MARK_PARTIAL = "all_slice", "mark_partial"
# Within groups of grid_axes.
ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER = "all_gather", "all_reduce", "reduce_scatter"
BROADCAST = "broadcast"  # from the only device of the source's grid to all of the target's
NATIVE = ALL_GATHER, BROADCAST  # carried by MPI's own collectives where memory is not shared
# Boxes from process to process.
ALL_TO_ALL, SWAP, EXCHANGE = "all_to_all", "swap", "exchange"

STEP_KINDS = SLICE, MARK_PARTIAL, ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, BROADCAST, ALL_TO_ALL, SWAP, EXCHANGE


@dataclass(frozen=True)
class Step:
    """A movement from ``source`` to ``target``, two layouts of one global shape.  Plans only.

    ``grid_axes``: the axes of the groups within which it moves data, in group order; empty where it moves no data or
    any process may be a partner.  ``dims``: the tensor dimensions it is about: (slice,), (gather,), (scatter,), or
    (split, concat) as for the operation of that name; for a swap the dimensions whose axes change; else empty.
    """

    kind: str
    source: Layout
    target: Layout
    grid_axes: tuple[int, ...] = ()
    dims: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in STEP_KINDS:
            raise ShardingError(f"a step of kind {self.kind!r}; it must be one of {', '.join(STEP_KINDS)}")

    def __str__(self) -> str:
        """``all_to_all over [1], split 0, concat 1: [[0],[]] -> [[],[0]]``."""
        formats = {1: "on {0}", 2: "split {0}, concat {1}"}
        about = ""
        if self.grid_axes:
            about = f" over {list(self.grid_axes)}"
        if self.dims and self.kind != SWAP:
            about += ", " + formats[len(self.dims)].format(*self.dims)
        return f"{self.kind}{about}: {self.source.sharding} -> {self.target.sharding}"
