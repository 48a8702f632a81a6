"""sum, dot and norm against numpy on the global array, for every layout."""

import numpy as np
import pytest
from reductions_oracle import LAYOUTS, SHAPE, same_bits, spread

import spmd_grid as sg

DTYPES = [np.dtype(code) for code in "?bBhiIqQefdgFDG"]


def numbers(dtype, seed, shape=SHAPE):
    random = np.random.default_rng(seed)
    if dtype.kind == "b":
        return random.random(shape) < 0.6
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, shape, dtype, endpoint=True)
    x = random.standard_normal(shape).astype(dtype)
    if dtype.kind == "c":
        x.imag = random.standard_normal(shape)
    return x


def tolerance(dtype):
    return 0 if dtype.kind in "biu" else 40 * np.finfo(dtype).eps


def close(found, wanted):
    """Of one dtype, and equal but for rounding."""
    assert found.dtype == wanted.dtype, (found.dtype, wanted.dtype)
    return np.allclose(found, wanted, rtol=0, atol=tolerance(found.dtype) * 10)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_against_numpy(spmd, layout):
    """Each dtype, each operation; one result, of numpy's dtype, on all processes."""
    ranks, shape, split_axes, options = LAYOUTS[layout]

    def body():
        grid = sg.init_grid(shape)
        found = {}
        for dtype in DTYPES:
            a = spread(numbers(dtype, 1), grid, split_axes, options)
            b = spread(numbers(dtype, 2), grid, split_axes, options)
            found[dtype.char] = sg.sum(a), sg.dot(a, b), sg.norm(a)
        return found

    results = spmd(ranks, body)
    for dtype in DTYPES:
        x, y = numbers(dtype, 1), numbers(dtype, 2)
        total, product, norm = results[0][dtype.char]
        assert close(total, np.sum(x))
        wide = np.sum(x).dtype
        assert close(product, np.sum(x.astype(wide) * y.astype(wide)))
        if dtype.kind in "biu":
            assert norm.dtype == np.float64 and np.isclose(norm, np.linalg.norm(x.astype(float)), rtol=1e-13)
        else:
            assert close(norm, np.linalg.norm(x.astype(np.clongdouble)).astype(x.real.dtype)[()])
        for found in results[1:]:
            for one, other in zip(found[dtype.char], results[0][dtype.char], strict=True):
                assert same_bits(one, other) or (dtype.char in "gG" and one == other)  # whose padding is arbitrary


@pytest.mark.parametrize(
    ("one", "other"), [("i4", "f4"), ("i2", "u2"), ("i8", "u8"), ("f4", "D"), ("?", "i1"), ("e", "f")]
)
def test_dot_of_two_dtypes(spmd, one, other):
    x, y = numbers(np.dtype(one), 1) // (1 if one[0] in "?ef" or one == "f4" else 2), numbers(np.dtype(other), 2)

    def body():
        grid = sg.init_grid((2, 2))
        s = sg.Sharding(grid, [[0], [1]])
        a, b = (sg.ShardedArray.from_global(each, s, grid) for each in (x, y))
        return [sg.dot(a, b), sg.dot(b, a), sg.dot(a, b, reproducible=True), sg.dot(b, a, reproducible=True)]

    kind = np.result_type(x, y)
    wide = np.sum(np.empty(0, kind)).dtype
    wanted = np.sum(x.astype(wide) * y.astype(wide))
    for results in spmd(4, body):
        for found in results:
            assert found.dtype == wide
            assert np.allclose(found, wanted, rtol=1e-3 if wide == np.float16 else 1e-6 if wide == "f4" else 1e-12)


def test_integers_wrap_in_64_bits(spmd):
    x = np.full(6, np.iinfo("i8").max)

    def body():
        a = sg.ShardedArray.from_global(x, sg.Sharding(grid := sg.init_grid((3,)), [[0]]), grid)
        return sg.sum(a), sg.dot(a, a), sg.sum(a, reproducible=True), sg.dot(a, a, reproducible=True)

    for found in spmd(3, body):
        assert [int(each) for each in found] == [-6, 6, -6, 6]


def test_bool_counts(spmd):
    def body():
        grid = sg.init_grid((2,))
        a = sg.full((300, 3), sg.Sharding(grid, [[0]]), grid, bool, fill_value=True)
        return sg.sum(a), sg.dot(a, a), sg.norm(a)

    assert spmd(2, body) == [(900, 900, 30.0)] * 2


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2), ()])
def test_no_cells_and_no_dimensions(spmd, shape):
    def body():
        grid = sg.init_grid((2, 2))
        a = sg.full(shape, sg.Sharding(grid, [[1]] if shape else []), grid, "f4", fill_value=3)
        return [
            f(a, reproducible=how) for how in (False, True) for f in (sg.sum, sg.norm, lambda a, **k: sg.dot(a, a, **k))
        ]

    wanted = [0, 0, 0] * 2 if shape else [3, 3, 9] * 2
    for found in spmd(4, body):
        assert found == wanted and {each.dtype for each in found} == {np.dtype("f4")}


def test_copies_count_once_even_where_they_are_more_than_cells(spmd):
    def body():
        grid = sg.init_grid((2, 3))
        s = sg.Sharding(grid, [])
        return [float(sg.sum(sg.full((n, 1), s, grid, fill_value=1))) for n in range(9)]

    assert spmd(6, body) == [list(range(9))] * 6


def strided(array, how):
    """Local arrays that are not as numpy would make them."""
    if how == "fortran":
        return np.asfortranarray(array)
    if how == "backwards":
        return array[::-1, ::-1].copy()[::-1, ::-1]
    if how == "every other":
        return np.repeat(array, 2, axis=1)[:, ::2]
    if how == "unaligned":
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
        raw[:] = np.frombuffer(array.tobytes(), np.uint8)
        return raw.view(array.dtype).reshape(array.shape)
    return array.astype(array.dtype.newbyteorder())


@pytest.mark.parametrize("how", ["fortran", "backwards", "every other", "unaligned", "byte order"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "F", "D", "i4"])
def test_local_arrays_of_any_strides(spmd, how, dtype):
    x, y = numbers(np.dtype(dtype), 1, (12, 50)), numbers(np.dtype(dtype), 2, (12, 50))

    def body():
        grid = sg.init_grid((3,))
        s = sg.Sharding(grid, [[0]])
        mine = s.shard_slices(x.shape, grid.coords)
        a = sg.ShardedArray.from_local(strided(x[mine], how), s, grid, x.shape)
        plain = sg.ShardedArray.from_local(y[mine].astype(a.dtype), s, grid, x.shape)
        wanted = sg.ShardedArray.from_global(x, s, grid), sg.ShardedArray.from_global(y, s, grid)
        found = sg.sum(a), sg.dot(a, plain), sg.norm(a), sg.max(a), sg.min(a)
        exact = [f(reproducible=True) for f in (lambda **k: sg.sum(a, **k), lambda **k: sg.dot(a, plain, **k))]
        other = [sg.sum(wanted[0], reproducible=True), sg.dot(*wanted, reproducible=True)]
        return found, exact, other

    wide = np.sum(x).dtype
    for found, exact, other in spmd(3, body):
        assert np.allclose(found[0], np.sum(x), rtol=1e-4, atol=1e-4)
        assert np.allclose(found[1], np.sum(x.astype(wide) * y.astype(wide)), rtol=1e-4, atol=1e-4)
        assert np.isclose(found[2], np.linalg.norm(x.astype("D")), rtol=1e-6)
        assert found[3] == np.max(x) and found[4] == np.min(x)
        assert all(each.dtype.isnative for each in found)
        assert all(map(same_bits, exact, other))


def test_halos_of_dot_may_differ(spmd):
    def body():
        grid = sg.init_grid((3,))
        wide = sg.from_function(lambda i: i, (7,), sg.Sharding(grid, [[0]], halo_sizes=[2, 1]), grid)
        plain = sg.from_function(lambda i: i, (7,), sg.Sharding(grid, [[0]]), grid)
        return sg.dot(wide, plain), sg.dot(plain, wide, reproducible=True)

    assert spmd(3, body) == [(91, 91)] * 3


def test_float32_is_added_in_float64_from_run_to_run(spmd):
    """A million times 0.1, in rows: one accumulator of float32 would be off in the third digit."""

    def body():
        grid = sg.init_grid((2,))
        s = sg.Sharding(grid, [[], [0]], halo_sizes=[1, 1])
        a = sg.full((100_000, 10), s, grid, "f4", fill_value=0.1)
        return sg.sum(a), sg.norm(a), sg.dot(a, a)

    tenth = float(np.float32(0.1))
    for total, norm, product in spmd(2, body):
        assert abs(total / (1e6 * tenth) - 1) < 1e-6
        assert abs(norm / (1e3 * tenth) - 1) < 1e-6 and abs(product / (1e6 * tenth**2) - 1) < 1e-6


def test_same_bits_in_every_run(spmd):
    x = np.random.default_rng(0).standard_normal((401, 307))

    def body():
        grid = sg.init_grid((2, 2))
        a = sg.ShardedArray.from_global(x, sg.Sharding(grid, [[0], [1]], halo_sizes=[1] * 4), grid)
        return sg.sum(a).tobytes(), sg.dot(a, a).tobytes(), sg.norm(a).tobytes()

    assert len({bits for _ in range(3) for bits in spmd(4, body)}) == 1


SCALES = {"f": [1e-44, 1e-25, 1e-12, 0.0, 1e25, 1e37], "d": [1e-320, 1e-200, 1e-150, 0.0, 1e200, 1e306]}


@pytest.mark.parametrize(("dtype", "scale"), [(d, scale) for d in "fdFD" for scale in SCALES[d.lower()]])
def test_norm_where_squares_leave_the_range(spmd, dtype, scale):
    x = (numbers(np.dtype(dtype), 5).astype(dtype.upper() if dtype in "FD" else "d") * scale).astype(dtype)

    def body():
        a = sg.ShardedArray.from_global(x, sg.Sharding(grid := sg.init_grid((3,)), [[0]]), grid)
        return sg.norm(a), sg.norm(a, reproducible=True)

    wanted = np.linalg.norm(x.astype(np.clongdouble))
    info = np.finfo(dtype)
    for found in spmd(3, body):
        for each in found:
            assert each.dtype == x.real.dtype
            assert abs(each - wanted) <= 2 * info.eps * wanted + info.smallest_subnormal


@pytest.mark.parametrize(
    ("special", "wanted"),
    [
        ([np.nan], np.nan),
        ([np.inf], np.inf),
        ([-np.inf], -np.inf),
        ([np.inf, -np.inf], np.nan),
        ([np.inf, np.nan], np.nan),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "e"])
@pytest.mark.parametrize("reproducible", [False, True])
def test_infinities_and_nans(spmd, special, wanted, dtype, reproducible):
    x = np.arange(9).astype(dtype)
    x[[1, 7][: len(special)]] = special

    def body():
        grid = sg.init_grid((3,))
        s = sg.Sharding(grid, [[0]])
        a, ones = sg.ShardedArray.from_global(x, s, grid), sg.full((9,), s, grid, dtype, fill_value=1)
        how = {"reproducible": reproducible}
        zeros = sg.zeros((9,), s, grid, dtype)
        return sg.sum(a, **how), sg.dot(a, ones, **how), sg.norm(a, **how), sg.dot(a, zeros, **how)

    for total, product, norm, nothing in spmd(3, body):
        np.testing.assert_array_equal([total, product], [wanted, wanted])
        np.testing.assert_array_equal(norm, np.nan if np.isnan(special).any() else np.inf)
        assert np.isnan(nothing) and {each.dtype for each in (total, product, norm)} == {np.dtype(dtype)}


# By name: the first cells, two to a device, what is done with them, and the result, whatever numpy is told to raise.
WARNS = {
    "sum of infinities": ([np.inf, -np.inf], "f8", lambda a: sg.sum(a), np.nan),
    "sum beyond the range": ([1.5e308, 1.5e308], "f8", lambda a: sg.sum(a), np.inf),
    "sum beyond its dtype": ([3e38, 0, 3e38], "f4", lambda a: sg.sum(a), np.inf),
    "dot of infinity and zero": ([np.inf, 0], "f8", lambda a: sg.dot(a, sg.zeros((6,), a.sharding, a.grid)), np.nan),
    "dot beyond the range": ([1e200, 1e200], "f8", lambda a: sg.dot(a, a), np.inf),
    "norm beyond the range": ([3e200, 0], "f8", lambda a: sg.norm(a), 3e200),
}


@pytest.mark.parametrize("name", WARNS)
def test_what_numpy_would_raise_on_one_process(spmd, name):
    """It would strand the others: results are those of numpy without warnings, equal on all processes."""
    cells, dtype, reduction, wanted = WARNS[name]

    def body():
        grid = sg.init_grid((3,))
        sharding = sg.Sharding(grid, [[0]])
        a = sg.ShardedArray.from_global(np.array([*cells, *[0] * (6 - len(cells))], dtype), sharding, grid)
        with np.errstate(all="raise"):
            return reduction(a)

    results = spmd(3, body)
    assert np.array_equal(results, 3 * [wanted], equal_nan=True), results


def test_no_temporary_of_the_size_of_the_arrays(spmd):
    import tracemalloc

    def body():
        grid = sg.init_grid((1,))
        s = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        a, b = (sg.full((1 << 22,), s, grid, dtype, fill_value=1) for dtype in ("f8", "f4"))
        thin = sg.full((1 << 17, 12), sg.Sharding(grid, [[], [0]], halo_sizes=[1, 1]), grid, fill_value=1)
        calls = [
            lambda **how: sg.sum(a, **how),
            lambda **how: sg.dot(a, b, **how),
            lambda **how: sg.norm(a, **how),
            lambda **how: sg.sum(thin, **how),
            lambda **how: sg.dot(thin, thin, **how),
        ]
        for call in calls:
            call(), call(reproducible=True)  # compiles, or loads what has been compiled
        tracemalloc.start()
        for call in calls:
            call(), call(reproducible=True)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert max(spmd(1, body)) < 2 << 20
