"""Random grids, axes, shapes and shardings, drawn alike on all ranks.

Whoever draws is open: hypothesis, which shrinks what fails, or a seeded generator, which draws alike on all processes
(`scripts/soak.py`).
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

import spmd_grid as sg

__all__ = ["HypothesisDraw", "RandomDraw", "draw_axes", "draw_grid_shape", "draw_shape", "draw_sharding"]

_BIG_EXTENTS = [17, 33, 130, 1025, 4200, 9001]


class HypothesisDraw:
    """Draws of hypothesis, by the ``draw`` of a composite strategy."""

    def __init__(self, draw):
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def flag(self) -> bool:
        return self._draw(st.booleans())

    def one_of(self, options):
        return self._draw(st.sampled_from(options))

    def order(self, items) -> list:
        return list(self._draw(st.permutations(items)))


class RandomDraw:
    """Draws of a numpy generator: alike wherever the seed is."""

    def __init__(self, *seed: int):
        self._rng = np.random.default_rng(seed)

    def integer(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high + 1))

    def flag(self) -> bool:
        return self.integer(0, 1) == 1

    def one_of(self, options):
        return options[self.integer(0, len(options) - 1)]

    def order(self, items) -> list:
        return [items[i] for i in self._rng.permutation(len(items))]


def draw_grid_shape(draw, most_ranks: int) -> tuple:
    shape: list[int] = []
    for _ in range(draw.integer(1, 3)):
        shape.append(draw.integer(1, min(most_ranks // math.prod(shape), 6)))
    return tuple(draw.order(shape))


def draw_axes(draw, grid_shape, least: int = 0) -> list:
    """A subset of the axes, in any order."""
    return draw.order(range(len(grid_shape)))[: draw.integer(least, len(grid_shape))]


def draw_shape(draw, least_ndim: int = 1, most_ndim: int = 3) -> tuple:
    """Mostly small; now and then past the size that fits a frame, or that goes to the kernels."""
    if draw.integer(0, 5) == 5:
        shape = [draw.integer(1, 3) for _ in range(draw.integer(1, 2))]
        shape[draw.integer(0, len(shape) - 1)] = draw.one_of(_BIG_EXTENTS)
    else:
        shape = [draw.integer(0, 7) for _ in range(draw.integer(least_ndim, most_ndim))]
    return tuple(shape)


def draw_sharding(draw, grid: sg.Grid, global_shape, partial_kinds=()) -> sg.Sharding:
    """Axes that split, replicate or hold partial values; every block rule; halos."""
    split, partial = [[] for _ in global_shape], []
    for axis in draw.order(range(grid.ndim)):
        role = draw.integer(-2, len(global_shape) - 1)
        if role >= 0:
            split[role].append(axis)
        elif role == -2 and partial_kinds:
            partial.append(axis)
    sharded = [dim for dim, axes in enumerate(split) if axes]
    options = {}
    if draw.flag():
        options["halo_sizes"] = [draw.integer(0, 3) for _ in range(2 * len(sharded))]
    rule = draw.one_of(["ceil", "balanced", "offsets"])
    if rule == "offsets":
        options["sharded_dims_offsets"] = [
            _draw_offsets(draw, global_shape[dim], math.prod(grid.shape[axis] for axis in split[dim]))
            for dim in sharded
        ]
    else:
        options["blocks"] = rule
    if partial:
        options |= {"partial_axes": partial, "partial_kind": draw.one_of(partial_kinds)}
    return sg.Sharding(grid, split, **options)


def _draw_offsets(draw, extent: int, n_blocks: int) -> list:
    return [0, *sorted(draw.integer(0, extent) for _ in range(n_blocks - 1)), extent]
