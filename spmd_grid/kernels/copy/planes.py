"""Copies of planes, of n1 x n0 runs of bytes, each run in one way."""

from __future__ import annotations

from collections.abc import Callable

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.copy.vectors import move

__all__ = ["pairs", "plane_of", "words"]


def plane_of(copy_run: Callable[[int, int, int], None]) -> Callable[..., None]:
    """Make the copy of a plane, each of whose runs ``copy_run(source, target, run)`` copies, a compiled function."""

    @inner
    def plane(source: int, target: int, run: int, n1: int, s1: int, t1: int, n0: int, s0: int, t0: int) -> None:
        for i1 in range(n1):
            for i0 in range(n0):
                copy_run(source + i1 * s1 + i0 * s0, target + i1 * t1 + i0 * t0, run)

    return plane


def words(width: int) -> Callable[..., None]:
    """Make the copy of a plane of runs of exactly ``width`` bytes."""

    @inner
    def word(source: int, target: int, run: int) -> None:
        move(source, target, width)

    return plane_of(word)


def pairs(width: int) -> Callable[..., None]:
    """Make the copy of a plane of runs of ``width + 1`` to ``2 * width`` bytes: two words, which may overlap."""

    @inner
    def pair(source: int, target: int, run: int) -> None:
        move(source, target, width)
        move(source + run - width, target + run - width, width)

    return plane_of(pair)
