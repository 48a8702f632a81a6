"""Exact splitting: where several sorted runs are cut, so that the cells before the cuts are the smallest, by number.

Multi-way selection of all cuts at once.  Each process has one run.  A cut starts as all of every run; in each round
every process names the middle cell of what is left, the median of these, weighted by what is left, is compared with
all runs, and one side is dropped: at least a quarter of the cells.  Equal cells count in the order of the runs, so the
cuts are exact whatever the cells are, and what follows them is a stable order.

    runs      1 4 4 7     2 4 4      the 4 smallest are      1 4 4 |7     2 |4 4

P. J. Varman, S. D. Scheufler, B. R. Iyer, G. R. Ricard, Merging multiple lists on hierarchical-memory multiprocessors,
1991; E. L. G. Saukas, S. W. Song, A note on parallel selection on coarse-grained multicomputers, 1999; M. Axtmann,
T. Bingmann, P. Sanders, C. Schulz, Practical massively parallel sorting, 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["find_cuts"]


def find_cuts(
    run: np.ndarray, number: int, lengths: Sequence[int], ranks: Sequence[int], swap: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Per entry of ``ranks``, a number of smallest cells, and per run: the number of cells of the run among them.

    Collective.  ``run``: the sorted run of this process, the run with ``number``; runs have ``lengths``.  ``swap``
    gathers one row of every process, in the order of the runs.  About 1.5 log2(cells) rounds of two rows.
    """
    wanted = np.asarray(ranks, np.int64)
    low = np.zeros((len(wanted), len(lengths)), np.int64)
    high = np.zeros_like(low) + np.asarray(lengths, np.int64)
    high[wanted <= 0] = 0
    low[wanted >= sum(lengths)] = lengths
    while (low < high).any():
        pivots = _medians(swap(_middles(run, low[:, number], high[:, number])).T, high - low)
        own = [np.searchsorted(run, pivots, side) for side in ("left", "right")]
        less, up_to = np.moveaxis(swap(np.stack(own)), 0, -1)
        _drop(low, high, np.clip(less, low, high), np.clip(up_to, low, high), wanted)
    return low


def _middles(run: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The cell in the middle of each window; any value where the window is empty."""
    middles = np.zeros(len(low), run.dtype)
    is_open = low < high
    middles[is_open] = run[(low[is_open] + high[is_open]) // 2]
    return middles


def _medians(cells: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weighted median of each row of ``cells``."""
    order = np.argsort(cells, axis=1, kind="stable")
    before = np.cumsum(np.take_along_axis(weights, order, 1), 1)
    at = np.argmax(2 * before >= before[:, -1:], axis=1)
    return np.take_along_axis(cells, np.take_along_axis(order, at[:, None], 1), 1)[:, 0]


def _drop(low: np.ndarray, high: np.ndarray, less: np.ndarray, up_to: np.ndarray, wanted: np.ndarray) -> None:
    """Drop from every window the side of the pivot on which the cut is not: ``less`` and ``up_to`` cells are before."""
    fewest, most = less.sum(axis=1), up_to.sum(axis=1)
    below, above = wanted <= fewest, wanted >= most
    high[below] = less[below]
    low[above & ~below] = up_to[above & ~below]
    within = ~below & ~above  # the cut is among cells equal to the pivot: they count in the order of the runs
    equal = (up_to - less)[within]
    left = (wanted - fewest)[within, None] - (np.cumsum(equal, axis=1) - equal)
    low[within] = high[within] = less[within] + np.clip(left, 0, equal)
