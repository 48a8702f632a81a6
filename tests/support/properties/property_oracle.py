"""An oracle of every operation, by brute force: from all ranks' arrays to all ranks' results (None: no result)."""

import math
from itertools import product

import numpy as np

from support.ops.ops_oracle import KINDS


def coordinates(grid_shape) -> list:
    """The coordinates of every rank."""
    return list(product(*map(range, grid_shape)))


def group_of(grid_shape, axes, rank) -> list:
    """The ranks of a rank's group, in group order: found by looking at everybody."""
    coords = coordinates(grid_shape)
    outside = [axis for axis in range(len(grid_shape)) if axis not in axes]
    members = [other for other in range(len(coords)) if all(coords[other][a] == coords[rank][a] for a in outside)]
    return sorted(members, key=lambda other: [coords[other][a] for a in axes])


def cuts(extent, sizes, start=0) -> list:
    """The block rule, as the design states it: the first axis cuts, the others cut its blocks."""
    if not sizes:
        return [(start, start + extent)]
    chunk = math.ceil(extent / sizes[0])
    blocks = [(min(m * chunk, extent), min((m + 1) * chunk, extent)) for m in range(sizes[0])]
    return [cut for a, b in blocks for cut in cuts(b - a, sizes[1:], start + a)]


def cut(x, axis, sizes, member) -> np.ndarray:
    start, stop = cuts(x.shape[axis], sizes)[member]
    return x[(slice(None),) * axis + (slice(start, stop),)]


def fold(xs, reduction, dtype=None) -> np.ndarray:
    """Converted first, then combined in group order."""
    if dtype is None:
        dtype = "f8" if reduction == "average" and xs[0].dtype.kind in "biu" else xs[0].dtype
    combine = KINDS.get(reduction, reduction)
    with np.errstate(all="ignore"):
        result = xs[0].astype(dtype)
        for x in xs[1:]:
            result = np.asarray(combine(result, x.astype(dtype)), dtype)
        return np.asarray(result / len(xs), dtype) if reduction == "average" else result


def join(xs, axis) -> np.ndarray:
    """One after the other; the byte order stays, which numpy would make native."""
    return np.concatenate(xs, axis=axis).astype(xs[0].dtype)


class Oracle:
    """Results by rank of one operation on a grid; methods are named as the operations."""

    def __init__(self, grid_shape, axes):
        self.sizes = [grid_shape[axis] for axis in axes]
        self.groups = [group_of(grid_shape, axes, rank) for rank in range(math.prod(grid_shape))]
        self.axes = axes

    def _each(self, xs, rule) -> list:
        return [rule([xs[i] for i in group], group.index(rank)) for rank, group in enumerate(self.groups)]

    def _root(self, root) -> int:
        return int(np.ravel_multi_index(root, self.sizes)) if self.sizes else 0

    def all_gather(self, xs, gather_axis):
        return self._each(xs, lambda group, me: join(group, gather_axis))

    def gather(self, xs, gather_axis, root):
        root = self._root(root)
        return self._each(xs, lambda group, me: join(group, gather_axis) if me == root else None)

    def all_slice(self, xs, slice_axis):
        return self._each(xs, lambda group, me: cut(group[me], slice_axis, self.sizes, me))

    def scatter(self, xs, scatter_axis, root):
        return self._each(xs, lambda group, me: cut(group[self._root(root)], scatter_axis, self.sizes, me))

    def broadcast(self, xs, root):
        return self._each(xs, lambda group, me: group[self._root(root)])

    def all_to_all(self, xs, split_axis, concat_axis):
        def rule(group, me):
            return join([cut(x, split_axis, self.sizes, me) for x in group], concat_axis)

        return self._each(xs, rule)

    def all_reduce(self, xs, reduction, dtype=None):
        return self._each(xs, lambda group, me: fold(group, reduction, dtype))

    def reduce(self, xs, reduction, root, dtype=None):
        root = self._root(root)
        return self._each(xs, lambda group, me: fold(group, reduction, dtype) if me == root else None)

    def reduce_scatter(self, xs, reduction, scatter_axis, dtype=None):
        return self._each(xs, lambda group, me: cut(fold(group, reduction, dtype), scatter_axis, self.sizes, me))

    def shift(self, xs, shift_axis, offset, rotate=False, fill=None):
        place = self.axes.index(shift_axis)

        def rule(group, me):
            here = list(np.unravel_index(me, self.sizes))
            here[place] -= offset
            if rotate:
                here[place] %= self.sizes[place]
            if 0 <= here[place] < self.sizes[place]:
                return group[np.ravel_multi_index(here, self.sizes)]
            return None if fill is None else np.full_like(group[me], fill)

        return self._each(xs, rule)


def same(result, expected) -> bool:
    """Equal shape, dtype and values; NaN equals NaN."""
    if result is None or expected is None:
        return result is expected
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return False
    if result.dtype.kind in "fc":
        return np.array_equal(result, expected, equal_nan=True)
    return np.array_equal(result, expected) if result.dtype.kind != "V" else result.tobytes() == expected.tobytes()


def assert_same(result, expected) -> None:
    """For a body on its own rank: results are not sent around, since pickled numpy arrays change their byte order."""
    assert same(result, expected), f"{_shown(result)}, not {_shown(expected)}"


def assert_merged(results, sequences) -> None:
    """The results are all arrays of all sequences, each once; those of one sequence come in its order."""
    taken = {(0,) * len(sequences)}  # how many of each: all the ways to read the results so far
    for x in results:
        taken = {
            (*counts[:i], counts[i] + 1, *counts[i + 1 :])
            for counts in taken
            for i, sequence in enumerate(sequences)
            if counts[i] < len(sequence) and same(x, sequence[counts[i]])
        }
    wanted = tuple(map(len, sequences))
    assert wanted in taken, f"{[*map(_shown, results)]}, not {[[*map(_shown, each)] for each in sequences]}"


def _shown(x) -> str:
    return "None" if x is None else f"{x.dtype}{x.shape} {x.tolist() if x.size < 100 else '...'}"
