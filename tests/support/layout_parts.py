"""Random parts of layouts, for hypothesis."""

import math
from itertools import accumulate

from hypothesis import strategies as st

from spmd_grid.grid.blocks import POLICIES


@st.composite
def layout_parts(draw, grid, halo_sizes, always_halos=False):
    """(split axes, the other arguments of a Sharding, global shape): any axes on any dimensions, any block rule.

    Some axes replicate or are partial.  ``halo_sizes``: (low, high) per sharded dimension, in all or in some layouts.
    """
    ndim = draw(st.integers(0, 3))
    split_axes, partial_axes = [[] for _ in range(ndim)], []
    for axis in draw(st.permutations(range(grid.ndim))):
        where = draw(st.integers(-2, ndim - 1))
        if where >= 0:
            split_axes[where].append(axis)
        elif where == -1:
            partial_axes.append(axis)
    shape = [draw(st.integers(0, 8)) for _ in range(ndim)]
    sharded = [dim for dim in range(ndim) if split_axes[dim]]
    options = {"partial_axes": partial_axes}
    if always_halos or draw(st.booleans()):
        options["halo_sizes"] = [draw(halo_sizes) for _ in sharded]
    if draw(st.booleans()):
        offsets = []
        for dim in sharded:
            n = math.prod(grid.shape[axis] for axis in split_axes[dim])
            extents = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
            offsets.append(list(accumulate(extents, initial=0)))
            shape[dim] = offsets[-1][-1]
        options["sharded_dims_offsets"] = offsets
    else:
        options["blocks"] = draw(st.sampled_from(POLICIES))
    return split_axes, options, shape
