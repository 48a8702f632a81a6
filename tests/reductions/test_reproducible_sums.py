"""reproducible=True: the exact result, rounded once, so the same bits however the cells are spread."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reductions_oracle import LAYOUTS, SHAPE, exact_dot, exact_sum, nearest_root, same_bits, spread

import spmd_grid as sg
from spmd_grid.grid.sharding import Sharding

RANKS = sorted({ranks for ranks, *_ in LAYOUTS.values()})


def hard(dtype, seed, shape=SHAPE):
    """Numbers over the whole range, most of which cancel, with subnormals and zeros of both signs."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(seed)
    if dtype.kind == "c":
        x = np.empty(shape, dtype)
        x.real, x.imag = hard(x.real.dtype, seed, shape), hard(x.real.dtype, seed + 1000, shape)
        return x
    info = np.finfo(dtype)
    n = int(np.prod(shape))
    with np.errstate(all="ignore"):
        exponents = random.integers(info.minexp - info.nmant, info.maxexp - 6, n)
        x = np.ldexp(random.standard_normal(n).astype(dtype), exponents).astype(dtype)
    x[n // 2 :] = -x[: n - n // 2]
    x[random.integers(0, n, 6)] = [0.0, -0.0, info.smallest_subnormal, info.max / 64, -info.tiny, 1.0]
    return random.permutation(x).reshape(shape)


def wanted_of(x, y, dtype):
    """sum, dot and norm."""
    real = x.real.dtype if dtype.kind == "c" else dtype
    parts = [x.real, x.imag] if dtype.kind == "c" else [x]
    total = [exact_sum(part, real) for part in parts]
    if dtype.kind == "c":
        product = [
            exact_dot(np.stack([x.real, -x.imag]), np.stack([y.real, y.imag]), real),
            exact_dot(np.stack([x.real, x.imag]), np.stack([y.imag, y.real]), real),
        ]
    else:
        product = [exact_dot(x, y, real)]
    squares = sum(Fraction(float(value)) ** 2 for part in parts for value in np.ravel(part))
    scalar = (lambda parts: dtype.type(complex(*parts))) if dtype.kind == "c" else (lambda parts: parts[0])
    return scalar(total), scalar(product), nearest_root(squares, real)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_exact_result(spmd, layout):
    ranks, shape, split_axes, options = LAYOUTS[layout]
    cases = [(np.dtype(code), seed) for code in "efdFD" for seed in range(3)]

    def body():
        grid = sg.init_grid(shape)
        found = []
        for dtype, seed in cases:
            a = spread(hard(dtype, seed), grid, split_axes, options, poison=np.nan)
            b = spread(hard(dtype, seed + 50), grid, split_axes, options, poison=np.inf)
            how = {"reproducible": True}
            found.append((sg.sum(a, **how), sg.dot(a, b, **how), sg.norm(a, **how)))
        return found

    results = spmd(ranks, body)
    for number, (dtype, seed) in enumerate(cases):
        wanted = wanted_of(hard(dtype, seed), hard(dtype, seed + 50), dtype)
        for found in results:
            for name, one, other in zip(("sum", "dot", "norm"), found[number], wanted, strict=True):
                assert same_bits(one, other), (dtype, seed, name, one, other)


@cache
def long_rows():
    """Two arrays with rows longer than a block of the kernel; the sum of one, their dot product, the other's norm."""
    random = np.random.default_rng(3)
    x, y = random.standard_normal((2, 13, 2500)) * 2.0 ** random.integers(-60, 60, (2, 13, 2500))
    squares = sum(Fraction(float(value)) ** 2 for value in np.ravel(y))
    return x, y, [exact_sum(x, "f8"), exact_dot(x, y, "f8"), nearest_root(squares, "f8")]


@pytest.mark.parametrize("ranks", RANKS)
def test_more_cells_than_a_block(spmd, ranks):
    x, y, wanted = long_rows()

    def body():
        grid = sg.init_grid((ranks,))
        s = sg.Sharding(grid, [[0]], blocks="balanced"), sg.Sharding(grid, [[], [0]], halo_sizes=[1, 2])
        found = []
        for sharding in s:
            a, b = (sg.ShardedArray.from_global(each, sharding, grid) for each in (x, y))
            found.append([sg.sum(a, reproducible=True), sg.dot(a, b, reproducible=True), sg.norm(b, reproducible=True)])
        return found

    for found in spmd(ranks, body):
        for each in found:
            assert all(map(same_bits, each, wanted))


@given(
    st.lists(st.floats(), max_size=12),
    st.sampled_from(["ceil", "balanced"]),
    st.sampled_from([(1, []), (2, [[0]]), (3, [[0]]), (3, [])]),
)
@settings(max_examples=40)
def test_any_doubles_however_spread(values, blocks, grid_of):
    """Simulated ranks only: an example is a run."""
    ranks, split_axes = grid_of
    x = np.array(values)

    def body():
        grid = sg.init_grid((ranks,))
        a = sg.ShardedArray.from_global(x, Sharding(grid, split_axes, blocks=blocks), grid)
        return sg.sum(a, reproducible=True), sg.dot(a, a, reproducible=True)

    wanted = exact_sum(x, "f8"), exact_dot(x, x, "f8")
    for found in sg.run_spmd(body, ranks=ranks):
        assert all(map(same_bits, found, wanted))


def test_what_plain_sums_lose(spmd):
    """Overflow on the way, underflow of products, and cancellation."""
    big, least = np.finfo("f8").max, 5e-324

    def body():
        grid = sg.init_grid((3,))
        s = sg.Sharding(grid, [[0]])

        def of(*values):
            return sg.ShardedArray.from_global(np.array(values), s, grid)

        return [
            sg.sum(of(big, big, -big), reproducible=True),
            sg.sum(of(1.0, 1e100, 1.0, -1e100), reproducible=True),
            sg.dot(of(1e200, 1e200, 3.0), of(1e200, -1e200, 1.0), reproducible=True),
            sg.dot(of(*[2.0**-540] * 16), of(*[2.0**-538] * 16), reproducible=True),  # 16 * 2**-1078
            sg.norm(of(least, least, least, least), reproducible=True),
            sg.norm(of(big / 4, big / 4, big / 4, big / 4), reproducible=True),
            sg.sum(of(big, big), reproducible=True),
            sg.sum(of(-0.0, -0.0), reproducible=True),
        ]

    for found in spmd(3, body):
        assert found == [big, 2.0, 3.0, least, 2 * least, big / 2, np.inf, 0.0]
        assert not np.signbit(found[-1])


def test_infinities_of_complex_products(spmd):
    """Each part is a sum of real products; that of the imaginary parts is taken off."""

    def body():
        grid = sg.init_grid((2,))
        s = sg.Sharding(grid, [[0]])
        a = sg.ShardedArray.from_global(np.array([complex(1, np.inf), 0]), s, grid)
        b = sg.ShardedArray.from_global(np.array([1 + 1j, 1 - 1j]), s, grid)
        minus = sg.ShardedArray.from_global(np.array([complex(1, -np.inf), 1e200]), s, grid)
        pairs = (a, b), (minus, b), (a, minus)
        return [(found.real, found.imag) for found in (sg.dot(*pair, reproducible=True) for pair in pairs)]

    wanted = [(-np.inf, np.inf), (np.inf, -np.inf), (np.inf, np.nan)]
    for found in spmd(2, body):
        np.testing.assert_array_equal(found, wanted)


def test_integers_are_reproducible_anyway(spmd):
    x = np.random.default_rng(0).integers(-(2**62), 2**62, SHAPE)

    def body():
        grid = sg.init_grid((2,))
        a = sg.ShardedArray.from_global(x, sg.Sharding(grid, [[0]]), grid)
        return sg.sum(a, reproducible=True) == sg.sum(a) == np.sum(x), sg.norm(a, reproducible=True)

    as_floats = [Fraction(float(value)) ** 2 for value in x.ravel()]
    assert spmd(2, body) == [(True, nearest_root(sum(as_floats), "f8"))] * 2
