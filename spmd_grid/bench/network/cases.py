"""The rows of the network benchmark, and the fewest bytes that can cross between nodes in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spmd_grid.bench.ops.cases import OPS
from spmd_grid.formatting import bytes_text
from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding

__all__ = ["HALO", "OPERATION", "RESHARDING", "NetworkCase", "all_cases", "fewest_bytes", "layouts", "quick_cases"]

OPERATION, RESHARDING, HALO = "operation", "resharding", "halo"
_DOUBLE = 8  # bytes
_SIZES = 1 << 10, 1 << 14, 1 << 17, 1 << 19, 1 << 23

# Each side splits rows and columns along these axes of a grid of two axes, of which the first goes from node to node.
_RESHARDINGS: dict[str, tuple[list[list[int]], list[list[int]]]] = {
    "rows to columns": ([[0, 1], []], [[], [0, 1]]),
    "rows to all": ([[0, 1], []], [[], []]),
    "blocks to all of a row": ([[0], [1]], [[0], []]),
    "blocks to all of a column": ([[0], [1]], [[], [1]]),
    "rows to columns, twice on a node": ([[0, 1], []], [[], [0]]),
}


@dataclass(frozen=True)
class NetworkCase:
    """An operation of ``OPS``, a resharding or a halo exchange of doubles.

    ``n_bytes``: of each rank's array; of the global array of a resharding; of one face of a halo.
    """

    kind: str
    what: str
    n_bytes: int

    @property
    def name(self) -> str:
        return f"{'' if self.kind == OPERATION else self.kind + ' '}{self.what}, {bytes_text(self.n_bytes)}"


def all_cases() -> list[NetworkCase]:
    operations = [NetworkCase(OPERATION, name, size) for name in OPS for size in _SIZES]
    reshardings = [NetworkCase(RESHARDING, name, size) for name in _RESHARDINGS for size in (1 << 13, 1 << 21, 1 << 25)]
    return operations + reshardings + [NetworkCase(HALO, "2-d", size) for size in (1 << 7, 1 << 10, 1 << 13)]


def quick_cases() -> list[NetworkCase]:
    """A row of each kind, of few bytes."""
    return [
        NetworkCase(OPERATION, "all_reduce", _SIZES[0]),
        NetworkCase(RESHARDING, "rows to all", 1 << 13),
        NetworkCase(HALO, "2-d", 1 << 7),
    ]


def layouts(case: NetworkCase, grid: Grid) -> tuple[Layout, Layout]:
    """Both layouts of a resharding, on a grid of two axes."""
    side = max(int((case.n_bytes // _DOUBLE) ** 0.5), 1)
    before, after = (Layout(Sharding(grid, cuts), (side, side)) for cuts in _RESHARDINGS[case.what])
    return before, after


def fewest_bytes(case: NetworkCase, node_of: Sequence[int], grid: Grid) -> int:
    """The fewest bytes that can cross between nodes; reductions may combine arrays in any order.

    ``node_of``: the node of every rank; ``grid``: of reshardings and halos.
    """
    if case.kind == RESHARDING:
        return _fewest_of_resharding(*layouts(case, grid), node_of)
    if case.kind == HALO:
        pairs = [
            (rank, other) for rank in range(grid.size) for other in _neighbours(grid, rank)
        ]  # each gives a face to the other
        return case.n_bytes * sum(node_of[a] != node_of[b] for a, b in pairs)
    n, nodes, size = len(node_of), len(set(node_of)), case.n_bytes
    away = sum(node != node_of[0] for node in node_of)  # from the root's node
    apart = sum(a != b for a in node_of for b in node_of)
    cross = sum(node_of[i] != node_of[i - 1] for i in range(n))
    return {
        "all_gather axis 0": n * (nodes - 1) * size,
        "all_gather last axis": n * (nodes - 1) * size,
        "broadcast": (nodes - 1) * size,
        "all_to_all 0 to 1": apart * size // n,
        "all_to_all 1 to 0": apart * size // n,
        "shift": cross * size,
        "gather": away * size,
        "scatter": away * size,
        "reduce_scatter": (nodes - 1) * size,
        "all_reduce": 2 * (nodes - 1) * size,
    }[case.what]


def _neighbours(grid: Grid, rank: int) -> list[int]:
    coords = grid.multi_index(rank)
    found = []
    for axis, extent in enumerate(grid.shape):
        for step in (-1, 1):
            if 0 <= coords[axis] + step < extent:
                found.append(grid.linear_index([c + step * (a == axis) for a, c in enumerate(coords)]))
    return found


def _fewest_of_resharding(before: Layout, after: Layout, node_of: Sequence[int]) -> int:
    """The cells that any rank of a node needs and none of it holds, for all nodes."""
    found = 0
    for node in set(node_of):
        members = [before.grid.multi_index(rank) for rank, each in enumerate(node_of) if each == node]
        held = [before.core_box(coords) for coords in members]
        missing: list[Box] = []
        for coords in members:
            rest = [after.core_box(coords)]
            for box in (*held, *missing):
                rest = [left for each in rest for left in each.subtract(box)]
            missing += rest
        found += sum(box.size for box in missing)
    return found * _DOUBLE
