"""Running reshardings against the global array: every device must hold what the target's layout says, and nothing else.

Contributions to a partial value differ from device to device, so that one taken twice, or forgotten, shows.
"""

from __future__ import annotations

import random
from math import prod
from typing import NamedTuple

import numpy as np

import spmd_grid as sg
from spmd_grid.grid.layout import Layout

STRATEGIES = ["direct", "basis", "auto"]
GRIDS = [(2,), (3,), (4,), (6,), (2, 2), (2, 3), (2, 1, 2)]
DTYPES = ["f8", "i4", "i2", "c16", "f4", "?"]


class Case(NamedTuple):
    """One pair of shardings of one array."""

    shape: tuple
    source: tuple  # split_axes, options
    target: tuple
    dtype: str

    def shardings(self, source_grid, target_grid=None):
        """Both shardings."""
        grids = source_grid, target_grid or source_grid
        return [
            sg.Sharding(grid, split, **options) for grid, (split, options) in zip(grids, (self.source, self.target))
        ]


def random_side(rng: random.Random, grid_shape, shape, partial: bool) -> tuple:
    """Split axes and options of a sharding: blocks, offsets, halos, partial axes."""
    axes = list(range(len(grid_shape)))
    rng.shuffle(axes)
    split, partial_axes = [[] for _ in shape], []
    for axis in axes:
        place = rng.randrange(len(shape) + 1 + partial)
        if place < len(shape):
            split[place].append(axis)
        elif place > len(shape):
            partial_axes.append(axis)
    sharded = [dim for dim in range(len(shape)) if split[dim]]
    options = {"partial_axes": partial_axes}
    if sharded and rng.random() < 0.3:
        options["halo_sizes"] = [(rng.randrange(3), rng.randrange(3)) for _ in sharded]
    blocks = rng.random()
    if blocks < 0.3:
        options["blocks"] = "balanced"
    elif blocks < 0.5 and sharded:
        options["sharded_dims_offsets"] = [random_offsets(rng, grid_shape, split[dim], shape[dim]) for dim in sharded]
    return split, options


def random_offsets(rng, grid_shape, axes, extent) -> list[int]:
    n = prod(grid_shape[axis] for axis in axes)
    return [0, *sorted(rng.randrange(extent + 1) for _ in range(n - 1)), extent]


def random_case(rng: random.Random, source_grid, target_grid=None) -> Case:
    shape = tuple(rng.choice([1, 2, 3, 5, 7, 12]) for _ in range(rng.choice([1, 2, 2, 3])))
    partial = rng.random() < 0.4
    source = random_side(rng, source_grid, shape, partial)
    target = random_side(rng, target_grid or source_grid, shape, partial)
    return Case(shape, source, target, "i8" if partial else rng.choice(DTYPES))


def global_array(case: Case) -> np.ndarray:
    return (np.arange(prod(case.shape)).reshape(case.shape) % 97).astype(case.dtype)


def local_in(layout: Layout, coords, array: np.ndarray, halos: bool) -> np.ndarray:
    """The cells of ``array`` on the device at ``coords``; halos: of the array, or of something else altogether."""
    local = np.zeros(layout.local_shape(coords), array.dtype)
    if not halos:
        local[...] = 55
    box = (layout.local_box(coords) if halos else layout.core_box(coords)).intersect(layout.domain_box)
    if not box.is_empty:
        local[box.relative_to(layout.local_box(coords).starts).slices()] = array[box.slices()]
    return local


def contribution(sharding, coords) -> int:
    """The number of this device among those that hold parts of the same value."""
    number = 0
    for axis in sharding.partial_axes:
        number = number * sharding.grid.shape[axis] + coords[axis]
    return number


def given(case: Case, sharding, coords) -> np.ndarray:
    """The local array of the source; its halos hold garbage."""
    array = global_array(case)
    part = array * (contribution(sharding, coords) + 1) if sharding.partial_axes else array
    return local_in(Layout(sharding, case.shape), coords, part, halos=False)


def wanted(case: Case, source) -> np.ndarray:
    """The global array that a partial value stands for."""
    n = prod(source.grid.shape[axis] for axis in source.partial_axes)
    return global_array(case) * (n * (n + 1) // 2) if source.partial_axes else global_array(case)


def check_result(case: Case, source, target, coords, result, grid) -> None:
    """Collective over ``grid``, the target's: partial results are summed up here."""
    if target.partial_axes:
        cores = sg.Sharding(target.grid, target.split_axes, blocks=target.blocks,
                            halo_sizes=target.halo_sizes, sharded_dims_offsets=target.sharded_dims_offsets)  # fmt: skip
        result = sg.all_reduce(result, grid, list(target.partial_axes), "sum")
    else:
        cores = target
    expected = local_in(Layout(cores, case.shape), coords, wanted(case, source), halos=True)
    assert result.dtype == expected.dtype and np.array_equal(result, expected), (
        f"{case}: device {coords} got\n{result}\nand should have\n{expected}"
    )


def check_case(case: Case, grid, strategy: str, **options) -> None:
    """Runs a case on one grid, twice: a plan that has been used must be as good as new."""
    source, target = case.shardings(grid)
    local = given(case, source, grid.coords)
    plan = sg.plan_reshard(source, target, case.shape, case.dtype, strategy, **options)
    for _ in range(2):
        before = local.copy()
        result = sg.run_plan(plan, local, grid)
        assert np.array_equal(local, before), f"{case}: the input has changed"
        assert not np.shares_memory(local, result)
        check_result(case, source, target, grid.coords, result, grid)
