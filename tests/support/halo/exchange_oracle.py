"""An oracle of HaloExchange, cell by cell, and the bodies that most of its tests run on every rank."""

import random
import time

import numpy as np

import spmd_grid as sg
from spmd_grid.grid.blocks import block_starts
from spmd_grid.halo.geometry.boundary import as_boundary, as_periodic

PATHS = [None, "read", "staged", "packed", "straight"]
STAYS = -1

# Ways to lay out an array with the cells of x; each gives an array to be filled.
MEMORY = {
    "C": lambda x, grid: np.empty(x.shape, x.dtype),
    "arena": lambda x, grid: grid.allocate(x.shape, x.dtype, True),
    "F": lambda x, grid: np.empty(x.shape, x.dtype, order="F"),
    "steps": lambda x, grid: np.zeros([2 * n + 1 for n in x.shape], x.dtype)[tuple(slice(1, None, 2) for _ in x.shape)],
    "backwards": lambda x, grid: np.empty(x.shape, x.dtype)[(slice(None, None, -1),) * x.ndim],
    "inside": lambda x, grid: np.zeros([n + 3 for n in x.shape], x.dtype)[tuple(slice(1, n + 1) for n in x.shape)],
}


def in_memory(x, kind, grid):
    """A copy of ``x`` that lies in memory as ``kind`` says."""
    held = MEMORY[kind](x, grid)
    held[...] = x
    return held


class Copies:
    """For every cell of one device's local array: the global cell that it is a copy of.

    ``cells``: its number in the row-major global array, or STAYS.  ``constants``: what the boundary puts there, NaN
    where it puts nothing.  ``core``: the cells that the device owns.
    """

    def __init__(self, layout, coords, periodic=False, corners=True, boundary="leave"):
        ndim = layout.ndim
        periodic, boundary = as_periodic(periodic, ndim), as_boundary(boundary, ndim)
        local, core = layout.local_box(coords), layout.core_box(coords)
        shape = local.shape
        outside, self.cells = np.zeros(shape, int), np.zeros(shape, int)
        known, self.constants = np.ones(shape, bool), np.full(shape, np.nan)
        for dim, extent in enumerate(layout.global_shape):
            line = np.arange(local.starts[dim], local.stops[dim])
            index, constant = np.where((line >= 0) & (line < extent), line, STAYS), np.full(len(line), np.nan)
            for beyond, rule in zip((line < 0, line >= extent), boundary[dim], strict=True):
                rule = "wrap" if periodic[dim] else rule
                if isinstance(rule, str) and rule != "leave" and extent:
                    width = len(line)
                    index[beyond] = np.pad(np.arange(extent), width, mode=rule)[width + line[beyond]]
                elif not isinstance(rule, str) and not callable(rule):
                    constant[beyond] = rule
            along = [-1 if other == dim else 1 for other in range(ndim)]
            index, constant = index.reshape(along), constant.reshape(along)
            outside += ((line < core.starts[dim]) | (line >= core.stops[dim])).reshape(along)
            self.cells = self.cells * extent + index
            known &= (index >= 0) | ~np.isnan(constant)
            self.constants = np.where(np.isnan(constant), self.constants, constant)  # the last dimension's counts
        written = known & ((outside == 1) | (corners & (outside > 1)))
        self.core = outside == 0
        self.constants[~written] = np.nan
        self.cells = np.where(self.core | (written & np.isnan(self.constants)), self.cells, STAYS)
        self.halo = (self.cells != STAYS) & ~self.core
        self.sides = {
            (dim, side): self._side(layout, coords, corners, dim, side) for dim in range(ndim) for side in range(2)
        }

    def _side(self, layout, coords, corners, dim, side):
        """The cells beyond the low or the high end of the domain along ``dim``, as functions get them."""
        local, core = layout.local_box(coords), layout.core_box(coords)
        mask = np.ones(local.shape, bool)
        for other, extent in enumerate(layout.global_shape):
            line = np.arange(local.starts[other], local.stops[other])
            part = (line < 0, line >= extent)[side]
            if other != dim:
                part = (
                    np.full(len(line), True) if corners else (line >= core.starts[other]) & (line < core.stops[other])
                )
            mask &= part.reshape([-1 if d == other else 1 for d in range(len(local.shape))])
        return mask

    def refreshed(self, local, values):
        """``local`` after an update; ``values``: the global array, flat."""
        result = local.copy()
        result[self.halo] = values[self.cells[self.halo]]
        filled = ~np.isnan(self.constants)
        result[filled] = self.constants[filled].astype(result.dtype)
        return result


def replica(sharding, coords) -> int:
    """A number that devices have in common which hold parts of one copy of the array."""
    split = {axis for axes in sharding.split_axes for axis in axes}
    place = 0
    for axis, (c, size) in enumerate(zip(coords, sharding.grid.shape, strict=True)):
        place = place * size + (0 if axis in split else c)
    return place


def values_at(step, layout, coords):
    """The global array at a step, flat; no two cells, replicas, or near steps have the same numbers."""
    n = int(np.prod(layout.global_shape))
    return np.arange(1, n + 1) + 1000 * (step % 50) + 100_000 * replica(layout.sharding, coords)


def dawdle(rng):
    """Now and then does nothing for a while, so that ranks drift apart."""
    if rng.random() < 0.15:
        time.sleep(rng.random() * 1e-3)


def update_by(form, halo, *fields):
    """One update, called in one of the ways that mean the same."""
    if form == "start":
        halo.start(*fields)
        halo.poke()
        halo.wait()
    else:
        halo.update(*fields)


def check_updates(
    grid, sharding, shape, *, updates=5, dtype="i8", memory=("C", "arena"), forms=("update", "start"), rng=None, **plan
):
    """Makes a plan and updates with new values again and again, arrays and ways by turns; every cell must be right."""
    with sg.HaloExchange(grid, sharding, shape, dtype, **plan) as halo:
        keep_updating(grid, halo, updates=updates, memory=memory, forms=forms, rng=rng)


def keep_updating(grid, halo, *, updates=5, memory=("C", "arena"), forms=("update", "start"), rng=None, first=0):
    """See `check_updates`."""
    layout, pattern, coords = halo.layout, halo.pattern, grid.coords
    copies = Copies(layout, coords, pattern.periodic, pattern.corners, pattern.boundary)
    (dtype,) = halo.dtypes
    before = np.full(copies.cells.shape, -7, dtype)
    arrays = [in_memory(before, kind, grid) for kind in memory]
    for step in range(first, first + updates):
        u = arrays[step % len(arrays)]
        values = values_at(step, layout, coords).astype(dtype)
        u[copies.core] = values[copies.cells[copies.core]]
        wanted = copies.refreshed(u, values)
        if rng is not None:
            dawdle(rng)
        update_by(forms[step % len(forms)], halo, u)
        assert np.array_equal(u, wanted), (str(layout), coords, pattern.boundary, step, u.tolist(), wanted.tolist())


def sharding_of(case, grid):
    """The sharding of a `HaloCase`, by its block rule where it has one."""
    for blocks in "balanced", "ceil":
        sizes = [[case.grid_shape[axis] for axis in axes] for axes in case.split_axes]
        by_rule = [block_starts(case.starts[d][-1], sizes[d], blocks) for d, axes in enumerate(case.split_axes) if axes]
        if [list(starts) for starts in by_rule] == [list(starts) for starts in case.offsets]:
            return sg.Sharding(grid, case.split_axes, halo_sizes=case.halo_sizes, blocks=blocks)
    return sg.Sharding(grid, case.split_axes, halo_sizes=case.halo_sizes, sharded_dims_offsets=case.offsets)


def check_case(case, grid, *, updates=5, run=update_by, forms=("update", "start"), rng=None, **plan):
    """As `check_updates`, for a `HaloCase`: the other oracle, which knows nothing of layouts."""
    local, wanted = case.before_and_after(grid.coords)
    stays = wanted < 0  # the domain's cells are positive, all others hold a negative number of the rank's own
    lows = [low for low, _ in case.halos]
    starts = [case.starts[d][case.place(grid.coords, d)] for d in range(local.ndim)]
    stops = [case.starts[d][case.place(grid.coords, d) + 1] for d in range(local.ndim)]
    core = tuple([slice(low, low + b - a) for low, a, b in zip(lows, starts, stops, strict=True)])
    with sg.HaloExchange(grid, sharding_of(case, grid), case.shape, case.dtype, case.periodic, **plan) as halo:
        arrays = [in_memory(local, "C", grid), in_memory(local, "arena", grid)]
        for step in range(updates):
            u = arrays[step % 2]
            after = np.where(stays, wanted, wanted + 200 * step)
            u[core] = after[core]
            if rng is not None:
                dawdle(rng)
            run(forms[step % len(forms)], halo, u)
            assert np.array_equal(u, after), (vars(case), grid.coords, step, u.tolist(), after.tolist())


def own_random(seed, grid):
    """Random numbers of this rank's own."""
    return random.Random(1000 * seed + grid.rank)


def neighbours(halo, grid) -> set[int]:
    """The ranks that take from this one or give to it, without itself."""
    coords = grid.coords
    linear = {take.owner for take in halo.pattern.takes(coords)} | {give.taker for give in halo.pattern.gives(coords)}
    return {grid.grid.process(device) for device in linear} - {grid.rank}
