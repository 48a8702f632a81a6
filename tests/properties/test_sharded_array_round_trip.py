"""from_global then to_global gives the array back, for random shardings; local arrays hold what they should."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.properties.property_oracle import same
from support.properties.property_strategies import (
    MEMORY,
    MOVED,
    PATHS,
    grid_shapes,
    make_array,
    shardings,
    tensor_shapes,
    with_fixtures,
)

import spmd_grid as sg

PARTIAL_KINDS = ["sum", "max", "min", "product"]
BITWISE_KINDS = ["bitwise_and", "bitwise_or", "bitwise_xor"]


def wanted_local(array, sharding, coords) -> np.ndarray:
    """The local array cut out of the global one, padded with zeros."""
    cells = sharding.shard_slices(array.shape, coords)
    low, high = ([sharding.halo_of(d)[side] for d in range(array.ndim)] for side in (0, 1))
    padded = np.zeros([n + a + b for n, a, b in zip(array.shape, low, high, strict=True)], array.dtype)
    padded[(..., *(slice(a, a + n) for n, a in zip(array.shape, low, strict=True)))] = array
    return padded[(..., *(slice(c.start, c.stop + a + b) for c, a, b in zip(cells, low, high, strict=True)))]


@with_fixtures
@given(st.data())
def test_from_global_to_global(spmd, most_ranks, data):
    draw = data.draw
    grid_shape = draw(grid_shapes(most_ranks))
    shape = draw(tensor_shapes(0).filter(lambda shape: len(shape) < 4))
    dtype = np.dtype(draw(st.sampled_from(MOVED)))
    kinds = []
    if dtype.kind in "biufc" and dtype.names is None:
        kinds = PARTIAL_KINDS + BITWISE_KINDS * (dtype.kind in "biu")
    if dtype.kind == "c":  # (inf+0j) * (1+0j) is inf+nanj: complex products have no identity for infinite values
        kinds = ["sum", "max", "min"]
    sharding = draw(shardings(grid_shape, shape, kinds))
    array = make_array(shape, dtype, draw(st.sampled_from(MEMORY)), draw(st.integers(0, 99)))
    root = draw(st.one_of(st.none(), st.tuples(*(st.integers(0, n - 1) for n in grid_shape))))
    update = draw(st.booleans())

    def body():
        grid = sg.init_grid(grid_shape)
        a = sg.ShardedArray.from_global(array, sharding, grid)
        assert a.shape == array.shape and a.dtype == dtype
        assert a.local.shape == sharding.shard_shape(shape, grid.coords)
        assert a.core.shape == sharding.core_shape(shape, grid.coords)
        if all(grid.coords[axis] == 0 for axis in sharding.partial_axes):
            assert same(a.local, wanted_local(array, sharding, grid.coords))
        if update:
            before = a.local.copy()
            assert a.update_halo() is a
            assert same(a.local, before)
        b = sg.ShardedArray.from_local(a.local, sharding, grid, shape)
        assert b.local is a.local
        whole = b.to_global(root)
        assert same(whole, array if root in (None, grid.coords) else None)

    with sg.forced_path(draw(st.sampled_from(PATHS))):
        spmd(math.prod(grid_shape), body)
