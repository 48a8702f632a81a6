"""An oracle of redistributions, from one global numpy array: no geometry is taken from the package.

Blocks come from the block rule as the design states it, devices from ``itertools.product``, and what a device holds,
wants and lacks from slices and masks of the global array.
"""

import math
from collections import defaultdict
from functools import lru_cache
from itertools import permutations, product

import numpy as np

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding


def cuts(extent, sizes, blocks, start=0) -> list:
    """(start, stop) of every block in order: the first axis cuts, the others cut its blocks."""
    if not sizes:
        return [(start, start + extent)]
    if blocks == "ceil":
        chunk = math.ceil(extent / sizes[0])
        edges = [min(part * chunk, extent) for part in range(sizes[0] + 1)]
    else:
        edges = np.cumsum([0, *map(len, np.array_split(np.empty(extent), sizes[0]))]).tolist()
    return [cut for a, b in zip(edges, edges[1:]) for cut in cuts(b - a, sizes[1:], blocks, start + a)]


class Side:
    """One layout: by device what it holds and wants, as lists of (start, stop), and which contribution it is."""

    def __init__(self, layout: Layout):
        sharding, self.shape = layout.sharding, layout.global_shape
        self.grid_shape = sharding.grid.shape
        self.coords = list(product(*map(range, self.grid_shape)))
        ranks = sharding.grid.ranks
        self.processes = list(range(len(self.coords))) if ranks is None else list(ranks)
        self.device_of = {process: device for device, process in enumerate(self.processes)}
        self.partial_axes = sharding.partial_axes
        self.cores = [[] for _ in self.coords]
        self.windows = [[] for _ in self.coords]
        self._held = {}
        n_sharded = 0
        for dim, extent in enumerate(self.shape):
            axes = sharding.split_axes[dim] if dim < len(sharding.split_axes) else ()
            blocks = cuts(extent, [self.grid_shape[axis] for axis in axes], sharding.blocks)
            low = high = 0
            if axes:
                if sharding.sharded_dims_offsets:
                    offsets = sharding.sharded_dims_offsets[n_sharded]
                    blocks = list(zip(offsets, offsets[1:]))
                if sharding.halo_sizes:
                    low, high = sharding.halo_sizes[n_sharded]
                n_sharded += 1
            for device, at in enumerate(self.coords):
                start, stop = blocks[self.place(at, axes)]
                self.cores[device].append((start, stop))
                self.windows[device].append((max(start - low, 0), min(stop + high, extent)))

    def place(self, at, axes) -> int:
        """The row-major place of a device among the sizes of ``axes``."""
        place = 0
        for axis in axes:
            place = place * self.grid_shape[axis] + at[axis]
        return place

    @property
    def n_contributions(self) -> int:
        return math.prod(self.grid_shape[axis] for axis in self.partial_axes)

    def contribution(self, device) -> int:
        return self.place(self.coords[device], self.partial_axes)

    def held(self, device) -> np.ndarray:
        """The global array's cells that a device holds, elsewhere -2: cells number themselves."""
        if device not in self._held:
            array, where = np.full(self.shape, -2), window(self.cores[device], len(self.shape))
            array[where] = np.arange(math.prod(self.shape)).reshape(self.shape)[where]
            self._held[device] = array
        return self._held[device]

    def copies_of(self, device) -> int:
        """The number of devices that hold the same cells as this device."""
        return sum(
            self.cores[other] == self.cores[device] and self.contribution(other) == self.contribution(device)
            for other in range(len(self.coords))
        )


@lru_cache(maxsize=512)
def side(layout: Layout) -> Side:
    return Side(layout)


def window(box, ndim) -> tuple:
    """The index of a global array for a list of (start, stop), or for a Box, which may have one more in front."""
    pairs = box if isinstance(box, list) else list(zip(box.starts, box.stops))[len(box.starts) - ndim :]
    return tuple(slice(start, stop) for start, stop in pairs)


def size(pairs) -> int:
    return math.prod(max(stop - start, 0) for start, stop in pairs)


def overlap(a, b) -> list:
    return [(max(p, r), min(q, s)) for (p, q), (r, s) in zip(a, b)]


def lacks(source: Layout, target: Layout) -> list:
    """By device of the target, how many cells it wants and does not hold: |target minus own source|."""
    before, after, result = side(source), side(target), []
    for device, process in enumerate(after.processes):
        own = before.device_of.get(process)
        kept = 0 if own is None else size(overlap(before.cores[own], after.windows[device]))
        result.append(size(after.windows[device]) - kept)
    return result


def check_moves(moved) -> dict:
    """Plays a redistribution on arrays, without partial sums; returns {(sender, receiver): cells}.

    Every cell that a device wants is written once, from a process that has it; devices receive what they lack and no
    more; what is sent is what is received.
    """
    source, target = side(moved.source), side(moved.target)
    shape = source.shape
    values = np.arange(math.prod(shape)).reshape(shape)
    received = {}
    for device, at in enumerate(target.coords):
        process, wanted = target.processes[device], target.windows[device]
        local, writes = np.full(shape, -1), np.zeros(shape, np.int8)
        pieces = [(piece.process, piece.box) for piece in moved.receives(at)]
        assert process not in [sender for sender, _ in pieces]
        kept = moved.kept_box(at)
        for sender, box in pieces if kept is None else [*pieces, (process, kept)]:
            where = window(box, len(shape))
            local[where] = source.held(source.device_of[sender])[where]
            writes[where] += 1
            assert not box.is_empty and box.ndim == len(shape)
        inside = np.zeros(shape, bool)
        if size(wanted):
            inside[window(wanted, len(shape))] = True
        assert np.array_equal(writes, inside), (moved, at, "cells written once")
        assert np.array_equal(local[inside], values[inside]), (moved, at, "values")
        own = source.device_of.get(process)
        lacking = inside.copy()
        if own is not None and size(source.cores[own]):
            lacking[window(source.cores[own], len(shape))] = False
        assert sum(box.size for sender, box in pieces if sender != process) == lacking.sum(), (moved, at, "lower bound")
        for sender, box in pieces:
            assert received.setdefault((sender, process), box) is box, (moved, "one message for each pair")
    sent = {}
    for device, at in enumerate(source.coords):
        for piece in moved.sends(at):
            key = source.processes[device], piece.process
            assert sent.setdefault(key, piece.box) is piece.box, (moved, "one message for each pair")
    assert sent == received, (moved, "sends are receives")
    return {pair: box.size for pair, box in sent.items()}


def check_partial_moves(moved) -> dict:
    """As `check_moves`, for partial sums on either side: contributions of random integers, added up where they meet.

    The sums that the target's devices hold, added along its partial axes, are those of the source; a device receives
    every contribution it combines once, and none that it is itself.
    """
    source, target = side(moved.source), side(moved.target)
    shape, n = source.shape, source.n_contributions
    values = np.random.default_rng(5).integers(1, 1 << 40, (n, *shape))
    received, sums = {}, defaultdict(lambda: np.zeros(shape, np.int64))
    for device, at in enumerate(target.coords):
        process, wanted = target.processes[device], target.windows[device]
        writes = np.zeros((n, *shape), np.int8)
        kept = moved.kept_box(at)
        pieces = [(piece.process, piece.box) for piece in moved.receives(at)]
        for sender, box in pieces if kept is None else [*pieces, (process, kept)]:
            there = source.device_of[sender]
            held = source.cores[there]
            number = source.place(source.coords[there], moved.hidden_axes[0])
            assert not box.is_empty and (box.starts[0], box.stops[0]) == (number, number + 1)
            if source.coords == target.coords:  # what is partial on both sides stays where it is
                shared = set(source.partial_axes) & set(target.partial_axes)
                assert source.processes != target.processes or all(source.coords[there][x] == at[x] for x in shared)
            assert all(a >= c and b <= d for a, b, (c, d) in zip(box.starts[1:], box.stops[1:], held))
            writes[box.slices()] += 1
        for sender, box in pieces:
            assert sender != process
            assert received.setdefault((sender, process), box) is box
        inside = np.zeros(shape, bool)
        if size(wanted):
            inside[window(wanted, len(shape))] = True
        combined = [each for each in range(n) if writes[each].any()]
        assert all(np.array_equal(writes[each], inside) for each in combined), (moved, at, "cells written once")
        group = tuple(c for axis, c in enumerate(at) if axis not in target.partial_axes)
        sums[group] += (values * writes).sum(axis=0)
    for device, at in enumerate(target.coords):
        where = window(target.windows[device], len(shape))
        group = tuple(c for axis, c in enumerate(at) if axis not in target.partial_axes)
        if size(target.windows[device]):
            assert np.array_equal(sums[group][where], values.sum(axis=0)[where]), (moved, at, "sum")
    sent = {}
    for device, at in enumerate(source.coords):
        for piece in moved.sends(at):
            key = source.processes[device], piece.process
            assert sent.setdefault(key, piece.box) is piece.box
    assert sent == received, (moved, "sends are receives")
    return {pair: box.size for pair, box in sent.items()}


# -- layouts to try ----------------------------------------------------------------------------------------------------


def all_split_axes(n_axes, ndim) -> list:
    """Every way in which some of the axes, in any order, split the dimensions."""
    found = []
    for roles in product(range(ndim + 1), repeat=n_axes):  # the last role: splits nothing
        rows = [[axis for axis in range(n_axes) if roles[axis] == dim] for dim in range(ndim)]
        found += [list(map(list, orders)) for orders in product(*(permutations(row) for row in rows))]
    return found


def random_sharding(rng, grid: Grid, shape, partial=False, plain=False) -> Sharding:
    """Any roles of axes; unless ``plain`` any block rule, and halos."""
    split, partial_axes = [[] for _ in shape], []
    for axis in rng.sample(range(grid.ndim), grid.ndim):
        role = rng.randrange(-2 if partial else -1, len(shape))
        if role >= 0:
            split[role].append(axis)
        elif role == -2:
            partial_axes.append(axis)
    sharded = [dim for dim in range(len(shape)) if split[dim]]
    options = {"partial_axes": partial_axes}
    if not plain and rng.random() < 0.3:
        options["halo_sizes"] = [[rng.randrange(3), rng.randrange(3)] for _ in sharded]
    rule = rng.choice(["ceil"] if plain else ["ceil", "ceil", "balanced", "offsets"])
    if rule == "offsets":
        counts = [math.prod(grid.shape[axis] for axis in split[dim]) for dim in sharded]
        options["sharded_dims_offsets"] = [
            [0, *sorted(rng.randrange(shape[dim] + 1) for _ in range(count - 1)), shape[dim]]
            for dim, count in zip(sharded, counts)
        ]
    else:
        options["blocks"] = rule
    return Sharding(grid, split, **options)
