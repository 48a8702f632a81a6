"""The processes that a plan connects: those between which its boxes move, directly or through others."""

from __future__ import annotations

from collections.abc import Sequence

from spmd_grid.reshard.geometry.messages import Redistribution

__all__ = ["MOST_SEARCHED", "connected_processes", "connected_within_node", "is_searched"]

# Among more processes, those that a plan connects are not looked for.
MOST_SEARCHED = 256


def is_searched(processes: Sequence[int], nodes: Sequence[int]) -> bool:
    """Whether the processes that a plan connects are looked for.  Plans only.

    On one node a meeting of all costs little.  ``nodes``: by process of the world, its node.
    """
    return len(processes) <= MOST_SEARCHED and len({nodes[process] for process in processes}) > 1


def connected_processes(
    moves: Sequence[Redistribution], process: int, processes: Sequence[int], nodes: Sequence[int]
) -> tuple[int, ...]:
    """The members of ``processes`` that ``moves`` connect with ``process``, itself included, in ascending order.

    Plans only; the same for all of them.  ``nodes``: by process of the world, its node.  Parts that reach several nodes
    and share one are connected too, so that cells that both need there cross once.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.layout import Layout
    >>> from spmd_grid.grid.sharding import Sharding
    >>> grid = Grid((2, 3))
    >>> rows = Redistribution(Layout(Sharding(grid, [[0], [1]]), (6, 6)), Layout(Sharding(grid, [[0], []]), (6, 6)))
    >>> connected_processes([rows], 4, range(6), [0] * 6)
    (3, 4, 5)
    """
    part = _part_of(moves, process, len(processes))
    if len({nodes[member] for member in part}) > 1 and len(part) < len(processes):
        left, others = set(processes) - part, []
        while left:
            others.append(_part_of(moves, min(left), len(processes)))
            left -= others[-1]
        reach = [{nodes[member] for member in other} for other in others]
        while True:
            mine = {nodes[member] for member in part}
            met = [other for other, its in zip(others, reach, strict=True) if len(its) > 1 and mine & its]
            joined = part.union(*met)
            if joined == part:
                break
            part = joined
    return tuple(sorted(part))


def connected_within_node(
    move: Redistribution, process: int, processes: Sequence[int], nodes: Sequence[int]
) -> tuple[int, ...] | None:
    """The members of ``processes`` that ``move`` connects with ``process``, itself included, in ascending order.

    Plans only.  None, the same for all of them, where it connects any that are on several nodes.

    >>> from spmd_grid.grid.device_grid import Grid
    >>> from spmd_grid.grid.layout import Layout
    >>> from spmd_grid.grid.sharding import Sharding
    >>> grid = Grid((2, 3))
    >>> rows = Redistribution(Layout(Sharding(grid, [[0], [1]]), (6, 6)), Layout(Sharding(grid, [[0], []]), (6, 6)))
    >>> connected_within_node(rows, 4, range(6), [0, 0, 0, 3, 3, 3])
    (3, 4, 5)
    >>> connected_within_node(rows, 4, range(6), [0, 0, 2, 3, 3, 3])
    """
    left, found = set(processes), set[int]()
    while left:
        part = _part_of([move], min(left), len(processes))
        if len({nodes[member] for member in part}) > 1:
            return None
        if process in part:
            found = part
        left -= part
    return tuple(sorted(found))


def _part_of(moves: Sequence[Redistribution], process: int, most: int) -> set[int]:
    """The processes connected with ``process``; the search stops at ``most``, the number of all."""
    found, left = {process}, [process]
    while left and len(found) < most:
        new = _partners(moves, left.pop()) - found
        found |= new
        left.extend(new)
    return found


def _partners(moves: Sequence[Redistribution], process: int) -> set[int]:
    """The processes to which a process sends boxes, and from which it receives any."""
    found: set[int] = set()
    for move in moves:
        before, after = (layout.grid.coords_of_process(process) for layout in (move.source, move.target))
        if before is not None:
            found.update(partner for partner, _ in move.sends(before))
        if after is not None:
            found.update(partner for partner, _ in move.receives(after))
    return found
