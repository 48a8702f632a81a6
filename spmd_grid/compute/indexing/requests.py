"""Requests: every process asks the members of its group about cells that they hold, and gets answers in its order.

Members first exchange the numbers of requests.  Requests go in rounds, so that a member of which all others ask holds
no more of them at a time than it has cells; there is one round where no member is asked much more than others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from spmd_grid.compute.cores import member_rows
from spmd_grid.compute.sorting.pieces import Pieces, swap_pieces
from spmd_grid.compute.splits import ArrayOnGrid
from spmd_grid.grid.groups import group_index
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.reshard.volume.totals import most_local

__all__ = ["Requests", "most_at_once"]

# Cells that a process may be asked about at once, however few it has.
_AT_ONCE = 1 << 16


def most_at_once(*arrays: ArrayOnGrid) -> int:
    """The cells that a process may be asked about at once: those of the largest block, or some more.  Local."""
    return max(_AT_ONCE, *[most_local(each.layout) for each in arrays])


class Requests:
    """Requests of this process to the members ``owners`` of the group over ``axes``, along which blocks lie.

    Collective over ``axes``; behind the gate.  ``most``: the requests that a member takes at once, alike on all.
    """

    def __init__(self, owners: np.ndarray, grid: ProcessGrid, axes: tuple[int, ...], most: int):
        self._grid, self._axes = grid, axes
        self._order = np.argsort(owners, kind="stable")
        self._rank = group_index(grid.grid, grid.own_coords, axes)
        if axes:
            size = int(np.prod([grid.shape[axis] for axis in axes]))
            self._counts = member_rows(np.bincount(owners, minlength=size), grid, axes)
            self._most = max(1, most // size)

    def ask(self, about: np.ndarray, answer: Callable[[np.ndarray], np.ndarray], found: np.ndarray) -> None:
        """Write ``answer`` of the members to each entry of ``about``, a row of numbers, to the rows of ``found``.

        Collective over the axes.
        """
        width = int(np.prod(found.shape[1:]))
        for positions, pieces in self._rounds():
            got = answer(self._swapped(about[positions], pieces))
            back = None if pieces is None else Pieces(np.ascontiguousarray(pieces.counts.T) * width)
            found[positions] = self._swapped(got.reshape(-1), back).reshape(len(positions), *found.shape[1:])

    def tell(self, *told: np.ndarray) -> Iterator[list[np.ndarray]]:
        """The rows of every array of ``told`` that members tell this one, round by round.  Collective over the axes."""
        for positions, pieces in self._rounds():
            rows, n = [], len(positions) if pieces is None else int(pieces.counts[:, self._rank].sum())
            for each in told:
                width = int(np.prod(each.shape[1:]))
                scaled = None if pieces is None else Pieces(pieces.counts * width)
                rows.append(self._swapped(each[positions].reshape(-1), scaled).reshape(n, *each.shape[1:]))
            yield rows

    def _rounds(self) -> Iterator[tuple[np.ndarray, Pieces | None]]:
        """(the positions of this process's requests of a round, the pieces in which they go)."""
        if not self._axes:
            yield self._order, None
            return
        own = self._counts[self._rank]
        starts = np.cumsum(own) - own
        for done in range(0, int(self._counts.max(initial=0)), self._most):
            now = np.clip(self._counts - done, 0, self._most)
            mine = np.clip(own - done, 0, self._most)
            chosen = [self._order[start + done : start + done + n] for start, n in zip(starts, mine)]
            yield np.concatenate(chosen), Pieces(np.ascontiguousarray(now))

    def _swapped(self, cells: np.ndarray, pieces: Pieces | None) -> np.ndarray:
        if pieces is None or not pieces.counts.any():
            return cells
        return swap_pieces(np.ascontiguousarray(cells), self._grid, self._axes, pieces)
