"""Exact splitting: where several sorted runs are cut, so that the cells before the cuts are the smallest, by number.

Multi-way selection of all cuts at once.  Each process has one run.  A cut may at first be anywhere in every run; in
each round every process names some cells of what is left of its run, at equal distances.  They tell about where the cut
is.  Cells on both sides of that position, and in the middle of the rest, are counted in all runs, and those beyond them
are dropped: at least a quarter of the cells, and mostly nearly all.  Equal cells count in the order of the runs, so the
cuts are exact whatever the cells are, and the order that follows from them is stable.

    runs      1 4 4 7     2 4 4      the 4 smallest are      1 4 4 |7     2 |4 4

P. J. Varman, S. D. Scheufler, B. R. Iyer, G. R. Ricard, Merging multiple lists on hierarchical-memory multiprocessors,
1991; E. L. G. Saukas, S. W. Song, A note on parallel selection on coarse-grained multicomputers, 1999; M. Axtmann,
T. Bingmann, P. Sanders, C. Schulz, Practical massively parallel sorting, 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["find_cuts"]

_MOST_SAMPLES = 4096  # per round, of all cuts and runs


def find_cuts(
    run: np.ndarray, number: int, lengths: Sequence[int], ranks: Sequence[int], swap: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Per entry of ``ranks``, a number of smallest cells, and per run: the number of cells of the run among them.

    Collective.  ``run``: the sorted run of this process, the run with ``number``; runs have ``lengths``.  ``swap``
    gathers one row of every process, in the order of the runs.  Some log16(cells) rounds of two rows.
    """
    wanted = np.asarray(ranks, np.int64)
    low = np.zeros((len(wanted), len(lengths)), np.int64)
    high = np.zeros_like(low) + np.asarray(lengths, np.int64)
    high[wanted <= 0] = 0
    low[wanted >= sum(lengths)] = lengths
    samples = min(max(_MOST_SAMPLES // max(low.size, 1), 2), 64)
    while (low < high).any():
        cells = np.moveaxis(swap(_samples(run, low[:, number], high[:, number], samples)), 0, 1)
        pivots = _pivots(cells, high - low, wanted - low.sum(axis=1))
        counts = swap(np.stack([np.searchsorted(run, pivots, side) for side in ("left", "right")]))
        for k in range(pivots.shape[1]):
            less, up_to = np.moveaxis(counts[..., k], 0, -1)
            _drop(low, high, np.clip(less, low, high), np.clip(up_to, low, high), wanted)
    return low


def _samples(run: np.ndarray, low: np.ndarray, high: np.ndarray, n: int) -> np.ndarray:
    """``n`` cells of each window, at equal distances; any value where the window is empty."""
    cells = np.zeros((len(low), n), run.dtype)
    is_open = low < high
    at = low[is_open, None] + (high - low)[is_open, None] * (2 * np.arange(n) + 1) // (2 * n)
    cells[is_open] = run[at]
    return cells


def _pivots(cells: np.ndarray, left: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Per cut, cells about where it is: a bit before, there, a bit after, and in the middle of what is left.

    ``cells``: by cut, run and number; each stands for an equal part of what is ``left`` of its run.  ``wanted``: the
    number of cells left before the cut.
    """
    n = cells.shape[2]
    cells, weights = cells.reshape(len(cells), -1), np.repeat(left, n, axis=1)
    order = np.argsort(cells, axis=1, kind="stable")
    up_to = np.cumsum(np.take_along_axis(weights, order, 1), 1)  # in units of 1 / n cells
    all_left = left.sum(axis=1)  # what no samples tell of is at most a part of each run between two of them
    positions = np.stack([n * wanted - all_left, n * wanted, n * wanted + all_left, n * all_left // 2], axis=1)
    positions = np.clip(positions, 0, np.maximum(n * all_left - 1, 0)[:, None])
    at = np.argmax(up_to[:, None, :] > positions[:, :, None], axis=2)
    return np.take_along_axis(cells, np.take_along_axis(order, at, 1), 1)


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
