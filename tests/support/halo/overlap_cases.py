"""Cases of map_overlap: arrays, how they are cut, stencils, and what numpy makes of the whole array."""

from itertools import product

import numpy as np

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from support.compiled import compiled

PATHS = ["direct", "message"]


class Case:
    """An array, how it is cut, and the stencil; ``reach``: (low, high) per tensor dimension."""

    def __init__(self, grid, split, shape, halos, radius, region=None, periodic=False, boundary="leave", **sharding):
        self.grid, self.shape, self.radius, self.region = grid, shape, radius, region
        self.periodic, self.boundary = periodic, boundary
        self.sharding = Sharding(Grid(grid), split, halo_sizes=halos, **sharding)
        self.layout = Layout(self.sharding, shape)
        row = radius if isinstance(radius, list) else [radius] * len(shape)
        self.reach = [(each, each) if isinstance(each, int) else each for each in row]
        self.ranks = int(np.prod(grid))

    def computed(self):
        """A mask of the cells of the global array that are computed."""
        mask = np.zeros(self.shape, bool)
        mask[self.region if self.region is not None else ...] = True
        for dim, (low, high) in enumerate(self.reach):
            if dim not in self.sharding.sharded_dims:
                cells = np.arange(self.shape[dim])
                inside = (cells >= low) & (cells < self.shape[dim] - high)
                mask &= inside.reshape([-1 if d == dim else 1 for d in range(len(self.shape))])
        return mask

    def offsets(self):
        return list(product(*[range(-low, high + 1) for low, high in self.reach]))

    def expected(self, arrays, before):
        """The results of numpy on whole arrays; ``before`` where nothing is computed."""
        mode = "wrap" if self.periodic else "constant"
        padded = []
        for array in arrays:
            for dim, sides in enumerate(self.reach):
                if not array.shape[dim]:
                    return before.copy()
                array = np.pad(array, [sides if d == dim else (0, 0) for d in range(array.ndim)], mode=mode)
            padded.append(array)
        lows = [low for low, _ in self.reach]
        result = combined(
            padded, np.zeros(self.shape, before.dtype), lows, self.shape, self.offsets(), (0,) * len(lows)
        )
        return np.where(self.computed(), result, before)


def combined(arrays, out, starts, extents, offsets, at):
    """Sums of weighted neighbours, in an order that decides the bits; ``out`` from ``at`` on is set and returned."""
    total = 0
    for number, offset in enumerate(offsets):
        shifted = tuple(slice(s + o, s + o + n) for s, o, n in zip(starts, offset, extents))
        for k, u in enumerate(arrays):
            total = total + (1 / (3 + number + 7 * k)) * u[shifted]
    out[tuple(slice(a, a + n) for a, n in zip(at, extents))] = total
    return out


def stencil(*arguments):
    """A kernel of plain Python, for any number of arrays."""
    *arrays, out, starts, stops, offsets = arguments
    assert all(type(n) is int for n in (*starts, *stops))
    extents = [b - a for a, b in zip(starts, stops)]
    assert all(n > 0 for n in extents)
    combined(arrays, out, starts, extents, offsets, starts)


@compiled(nogil=True)
def compiled_stencil(u, v, out, starts, stops, weight):
    for i in range(starts[0], stops[0]):
        for j in range(starts[1], stops[1]):
            total = weight * u[i - 1, j]
            total = total + weight * u[i, j - 1]
            out[i, j] = total + v[i, j + 1]


def values(shape, seed):
    """The same numbers on every rank."""
    return np.random.default_rng(seed).standard_normal(shape)


UNEVEN = {"sharded_dims_offsets": [[0, 3, 3, 10]]}
CASES = {
    "1-d": Case((3,), [[0]], (11,), [1, 1], 1),
    "1-d, periodic": Case((3,), [[0]], (11,), [1, 1], 1, periodic=True),
    "1-d, radius 2": Case((3,), [[0]], (17,), [2, 2], 2),
    "1-d, radius below halo": Case((3,), [[0]], (17,), [3, 2], 1, periodic=True),
    "1-d, radius 0": Case((2,), [[0]], (5,), [1, 1], 0),
    "1-d, no halo at all": Case((2,), [[0]], (5,), None, 0),
    "1-d, one sided": Case((3,), [[0]], (9,), [2, 0], [(2, 0)]),
    "1-d, asymmetric": Case((3,), [[0]], (13,), [1, 3], [(1, 2)], periodic=True),
    "1-d, thin": Case((4,), [[0]], (6,), [2, 2], 2, blocks="balanced"),
    "1-d, empty blocks": Case((4,), [[0]], (5,), [1, 1], 1, periodic=True),
    "1-d, uneven": Case((3,), [[0]], (10,), [2, 1], 1, **UNEVEN),
    "1-d, region": Case((3,), [[0]], (11,), [1, 1], 1, region=np.s_[1:-1]),
    "1-d, region of few": Case((3,), [[0]], (11,), [1, 1], 1, region=np.s_[4:6]),
    "1-d, empty region": Case((2,), [[0]], (11,), [1, 1], 1, region=np.s_[6:4]),
    "1-d, nothing": Case((2,), [[0]], (0,), [1, 1], 1),
    "1-d, not sharded": Case((2,), [], (7,), None, 2),
    "2-d": Case((2, 2), [[0], [1]], (9, 10), [1, 1, 1, 1], 1),
    "2-d, periodic, radius 2": Case((2, 2), [[0], [1]], (9, 10), [2, 2, 3, 2], 2, periodic=True),
    "2-d, radius per dimension": Case((2, 2), [[0], [1]], (9, 10), [1, 1, 2, 2], [0, 2]),
    "2-d, border left": Case((2, 2), [[0], [1]], (9, 10), [1, 1, 1, 1], 1, region=np.s_[1:-1, 1:-1]),
    "2-d, slab": Case((3,), [[], [0]], (6, 11), [1, 1], 1),
    "2-d, slab of rows": Case((3,), [[0]], (11, 6), [2, 2], 2, region=(slice(2, -2),)),
    "2-d, replicated": Case((2, 2), [[1]], (9, 4), [1, 1], 1),
    "2-d, uneven": Case((1, 3), [[0], [1]], (5, 10), [1, 1, 1, 1], 1, sharded_dims_offsets=[[0, 5], [0, 1, 1, 10]]),
    "2-d, both axes on one": Case((2, 2), [[1, 0]], (13, 5), [1, 1], 1, periodic=True),
    "3-d": Case((2, 1, 2), [[0], [1], [2]], (6, 5, 7), [1, 1] * 3, 1),
    "3-d, thin": Case((4,), [[], [0]], (5, 6, 5), [2, 2], [1, 2, 2], blocks="balanced"),
}


def simple(u, out, starts, stops):
    for i in range(starts[0], stops[0]):
        out[i] = u[i - 1] + u[i + 1]


SPLIT = {"split_axes": [[0]], "halo_sizes": [1, 1]}
