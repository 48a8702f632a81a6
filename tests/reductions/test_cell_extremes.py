"""max and min against numpy on the global array, for every layout."""

import numpy as np
import pytest
from reductions_oracle import LAYOUTS, SHAPE, same_bits, spread

import spmd_grid as sg

DTYPES = [np.dtype(code) for code in "?bBhHiIqQefdgFDG"]


def numbers(dtype, seed):
    random = np.random.default_rng(seed)
    if dtype.kind == "b":
        return random.random(SHAPE) < (0.02, 0.98)[seed % 2]
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, SHAPE, dtype, endpoint=True)
    x = np.round(random.standard_normal(SHAPE), 1).astype(dtype)
    if dtype.kind == "c":
        x.imag = random.standard_normal(SHAPE)
    return x if seed < 2 else x + (100, -100)[seed % 2]  # all of one sign: a 0 from elsewhere would show


@pytest.mark.parametrize("layout", LAYOUTS)
def test_against_numpy(spmd, layout):
    ranks, shape, split_axes, options = LAYOUTS[layout]

    def body():
        grid = sg.init_grid(shape)
        found = []
        for dtype in DTYPES:
            for seed in range(4):
                array = numbers(dtype, seed)
                a = spread(array, grid, split_axes, options, poison=dtype.type(seed < 2 or 0))
                found.append((array, sg.max(a), sg.min(a)))
        return found

    for found in spmd(ranks, body):
        for array, largest, smallest in found:
            assert largest == np.max(array) and smallest == np.min(array), array.dtype
            assert largest.dtype == smallest.dtype == array.dtype


SPECIALS = {
    "nan": ([1.0, np.nan, 3.0, -4.0, -np.inf], np.nan, np.nan),
    "nan of another kind": ([1.0, -np.nan, np.nan, np.inf, 2.0], np.nan, np.nan),
    "infinities": ([np.inf, 1.0, -np.inf, 0.0, 2.0], np.inf, -np.inf),
    "minus infinity": ([-np.inf] * 5, -np.inf, -np.inf),
    "zeros": ([0.0, -0.0, 0.0, -0.0, -0.0], 0.0, 0.0),
    "minus zero": ([-0.0] * 5, 0.0, 0.0),
}


@pytest.mark.parametrize("case", SPECIALS)
@pytest.mark.parametrize("dtype", ["e", "f", "d", "F", "D"])
def test_same_bits_for_every_spread(spmd, case, dtype):
    values, largest, smallest = SPECIALS[case]
    x = np.array(values, dtype)

    def body():
        found = []
        for shape, split_axes in (((3,), [[0]]), ((3,), []), ((1, 3), [[1]])):
            grid = sg.init_grid(shape)
            a = sg.ShardedArray.from_global(x, sg.Sharding(grid, split_axes), grid)
            found.append((sg.max(a), sg.min(a)))
        return found

    wanted = [
        x.dtype.type(complex(each, each) if dtype in "FD" and np.isnan(each) else each) for each in (largest, smallest)
    ]
    for found in spmd(3, body):
        for each in found:
            assert all(map(same_bits, each, wanted)), (each, wanted)


def test_extension_floats(spmd):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = np.array([1.5, -2.0, 4.0, 0.25, 300.0], bfloat16)

    def body():
        grid = sg.init_grid((3,))
        a = sg.ShardedArray.from_global(x, sg.Sharding(grid, [[0]]), grid)
        found = [sg.max(a), sg.min(a), sg.sum(a), sg.dot(a, a), sg.norm(a)]
        return [*found, sg.sum(a, reproducible=True), sg.dot(a, a, reproducible=True), sg.norm(a, reproducible=True)]

    total, product = 303.75, 90022.3125
    wanted = [300.0, -2.0, total, product, product**0.5, total, product, product**0.5]
    for found in spmd(3, body):
        assert [each.dtype for each in found] == [np.dtype(bfloat16)] * 8
        assert found == [bfloat16(each) for each in wanted]
