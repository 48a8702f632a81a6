"""Random arrays: the bits of numpy's Philox, the same for every grid and sharding, of the right distributions."""

import math

import numpy as np
import pytest

import spmd_grid as sg

DRAWS = {
    "random": lambda g, *where: g.random(*where),
    "float32": lambda g, *where: g.uniform(*where, low=-2, high=5, dtype="f4"),
    "standard_normal": lambda g, *where: g.standard_normal(*where),
    "normal": lambda g, *where: g.normal(*where, loc=3, scale=0.5),
    "exponential": lambda g, *where: g.exponential(*where, scale=2),
    "integers": lambda g, *where: g.integers(*where, low=-3, high=10),
    "integers of 8 bits": lambda g, *where: g.integers(*where, low=-128, high=128, dtype="i1"),
    "integers, often rejected": lambda g, *where: g.integers(*where, low=-5, high=3 * 2**30, dtype="i8"),
    "short integers": lambda g, *where: g.integers(*where, low=-(2**31), high=2**31, dtype="i4"),
    "big-endian": lambda g, *where: g.standard_normal(*where, dtype=">f8"),
    "float16": lambda g, *where: g.exponential(*where, dtype="f2"),
    "integers of 64 bits": lambda g, *where: g.integers(*where, low=0, high=2**64, dtype="u8"),
}
SHARDINGS = [([[0, 1]], {}), ([[1], [0]], {"halo_sizes": [1, 2, 0, 1]}), ([[], [0, 1]], {"blocks": "balanced"})]


@pytest.mark.parametrize("shape", [(7, 9), (1, 5), (3, 0), (6, 4, 5), (3, 2500)])
def test_the_bits_depend_on_the_global_index_alone(spmd, shape):
    def body():
        grid = sg.init_grid((2, 3))
        for draw in DRAWS.values():
            want = draw(sg.random.Generator(11), shape, sg.Sharding(grid, []), grid).local
            for axes, options in SHARDINGS:
                sharding = sg.Sharding(grid, axes, **options)
                found = draw(sg.random.Generator(11), shape, sharding, grid)
                np.testing.assert_array_equal(found.to_global(), want)
                again = sg.ShardedArray.from_global(want, sharding, grid)  # halos too
                np.testing.assert_array_equal(found.local, again.local)

    spmd(6, body)


def test_numpys_numbers():
    grid = sg.init_grid((1,))
    rows, ours = sg.Sharding(grid, [[0]]), sg.random.Generator(5)
    np.testing.assert_array_equal(
        ours.random((6, 7), rows, grid).local, np.random.Generator(np.random.Philox(5)).random((6, 7))
    )
    key = np.random.SeedSequence(5).generate_state(2, np.uint64)
    second = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 1, 0]))
    np.testing.assert_array_equal(ours.uniform((9,), rows, grid, -1, 4).local, second.uniform(-1, 4, 9))
    third = np.random.Philox(key=key, counter=[0, 0, 2, 0])
    found = ours.integers((10,), rows, grid, 0, 2**64, "u8").local
    np.testing.assert_array_equal(found, third.random_raw(10))


@pytest.mark.parametrize(("low", "high", "dtype"), [(0, 2**20, "i8"), (-128, 128, "i2"), (-(2**31), 2**31, "i8")])
@pytest.mark.parametrize("n", [1, 7, 3000])
def test_numpys_integers_where_none_is_rejected(low, high, dtype, n):
    grid = sg.init_grid((1,))
    found = sg.random.Generator(5).integers((n,), sg.Sharding(grid, [[0]]), grid, low, high, dtype)
    want = np.random.Generator(np.random.Philox(5)).integers(low, high, n)
    np.testing.assert_array_equal(found.local, want)
    assert found.dtype == np.dtype(dtype)


def test_numpys_integers_where_some_are_rejected():
    """Of 3 * 2**30 numbers a quarter is rejected; up to the first of them the numbers are numpy's."""
    grid, n, span = sg.init_grid((1,)), 1000, 3 * 2**30
    found = sg.random.Generator(5).integers((n,), sg.Sharding(grid, [[0]]), grid, 0, span).local
    halves = np.random.Philox(5).random_raw(n // 2).view(np.uint32)
    product = halves.astype(np.uint64) * np.uint64(span)
    kept = (product & np.uint64(2**32 - 1)) >= (2**32 - span) % span
    assert 200 < np.count_nonzero(~kept) < 300
    np.testing.assert_array_equal(found[kept], (product >> np.uint64(32))[kept])
    key = np.random.SeedSequence(5).generate_state(2, np.uint64)
    for i in np.flatnonzero(~kept)[:20]:  # each goes on with words of its own
        for attempt in range(50):
            numpys = np.random.Philox(key=key, counter=[i, attempt, 0, 1])  # which counts before it draws
            word = numpys.random_raw(1)[0] & np.uint64(2**32 - 1)
            wide = int(word) * span
            if wide % 2**32 >= (2**32 - span) % span:
                break
        assert found[i] == wide >> 32


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_numpys_floats(dtype):
    grid = sg.init_grid((1,))
    found = sg.random.Generator(5).random((3001,), sg.Sharding(grid, [[0]]), grid, dtype).local
    np.testing.assert_array_equal(found, np.random.Generator(np.random.Philox(5)).random(3001, dtype))


def test_draws_and_streams_differ():
    grid = sg.init_grid((1,))
    rows, ours = sg.Sharding(grid, [[0]]), sg.random.Generator([1, 2])
    found = [g.random((50,), rows, grid).local for g in (ours, ours, *ours.spawn(2), sg.random.Generator([1, 3]))]
    assert len({x.tobytes() for x in found}) == 5


def test_distributions():
    """Counts of 2,000,000 numbers lie within 5 standard deviations of what they must be."""
    grid, n = sg.init_grid((1,)), 2_000_000
    rows, ours = sg.Sharding(grid, [[0]]), sg.random.Generator(9)

    def check(count, p):
        assert abs(count - n * p) < 5 * math.sqrt(n * p * (1 - p)), (count, n * p)

    x = np.abs(ours.standard_normal((n,), rows, grid).local)
    for t in (0.1, 0.5, 1.0, 2.0, 3.0, 3.6, 3.7, 4.2):
        check(np.count_nonzero(x > t), math.erfc(t / math.sqrt(2)))
    check(np.count_nonzero(ours.normal((n,), rows, grid, 1, 2).local > 1), 0.5)
    x = ours.exponential((n,), rows, grid, 3).local
    for t in (0.1, 1.0, 10.0, 22.0, 23.0, 24.0, 30.0):  # the tail begins at 23.09
        check(np.count_nonzero(x > t), math.exp(-t / 3))
    counts = np.bincount(ours.integers((n,), rows, grid, 0, 7).local, minlength=7)
    for count in counts:
        check(count, 1 / 7)
    counts = np.bincount(ours.integers((n,), rows, grid, 0, 3 * 2**30).local >> 28, minlength=12)
    for count in counts:
        check(count, 1 / 12)
    third = 3 * 2**62  # where a biased method would be wrong in a third of the range
    check(np.count_nonzero(ours.integers((n,), rows, grid, 0, third, "u8").local < 2**62), 1 / 3)


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda g, *where: g.integers(*where, low=0, high=300, dtype="u1"), "both must fit uint8"),
        (lambda g, *where: g.integers(*where, low=5, high=5), "low < high"),
        (lambda g, *where: g.integers(*where, low=0, high=5, dtype="f8"), "it must be of integers"),
        (lambda g, *where: g.random(*where, dtype="i4"), "it must be of floating-point numbers"),
    ],
)
def test_refusals(draw, words):
    grid = sg.init_grid((1,))
    with pytest.raises(sg.DTypeError, match=words):
        draw(sg.random.Generator(), (4,), sg.Sharding(grid, [[0]]), grid)


def test_short_floats_stay_below_1():
    grid = sg.init_grid((1,))
    found = sg.random.Generator(3).random((100_000,), sg.Sharding(grid, [[0]]), grid, dtype="f2").local
    assert found.dtype == np.float16 and 0 <= found.min() and found.max() < 1


def test_bounds_of_integers_are_whole_numbers():
    grid = sg.init_grid((1,))
    with pytest.raises(sg.DTypeError, match="must be whole numbers"):
        sg.random.Generator(3).integers((4,), sg.Sharding(grid, [[0]]), grid, low=0.5, high=2)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 256, 257, 5000])
def test_permutations_for_every_spread(spmd, n):
    def body():
        grid = sg.init_grid((2, 3))
        want = sg.random.Generator(3).permutation(n, sg.Sharding(grid, []), grid).local
        assert want.dtype == np.int64 and np.array_equal(np.sort(want), np.arange(n))
        for axes, options in [([[0, 1]], {}), ([[1]], {"halo_sizes": [1, 2]}), ([[1, 0]], {"blocks": "balanced"})]:
            sharding = sg.Sharding(grid, axes, **options)
            found = sg.random.Generator(3).permutation(n, sharding, grid)
            np.testing.assert_array_equal(found.to_global(), want)
            np.testing.assert_array_equal(found.local, sg.ShardedArray.from_global(want, sharding, grid).local)

    spmd(6, body)


def test_permutations_of_few_are_equally_likely():
    """Chi-square of all 24 orders of 4 in 12,000 draws, and of where 40 numbers go in 4,000: within 5 deviations."""
    grid = sg.init_grid((1,))
    rows, ours = sg.Sharding(grid, [[0]]), sg.random.Generator(17)

    def check(counts, freedom):
        expected = counts.mean()
        assert abs(((counts - expected) ** 2 / expected).sum() - freedom) < 5 * math.sqrt(2 * freedom), counts

    orders = [ours.permutation(4, rows, grid).local @ [64, 16, 4, 1] for _ in range(12_000)]
    counts = np.unique(orders, return_counts=True)[1]
    assert len(counts) == 24
    check(counts, 23)
    places = np.array([ours.permutation(40, rows, grid).local for _ in range(4_000)])
    check(np.array([np.bincount(column, minlength=40) for column in places.T]), 39 * 39)
    steps = np.diff(places, axis=1) % 40  # of neighbours: no step is likelier
    check(np.bincount(steps.ravel(), minlength=40)[1:], 38)


def test_a_long_permutation_looks_like_one():
    """Fixed points, ascents, and the correlation of neighbours, of 1,000,000 numbers: within 5 deviations."""
    grid, n = sg.init_grid((1,)), 1_000_000
    found = sg.random.Generator(23).permutation(n, sg.Sharding(grid, [[0]]), grid).local
    assert np.array_equal(np.bincount(found, minlength=n), np.ones(n))
    assert np.count_nonzero(found == np.arange(n)) < 10
    assert abs(np.count_nonzero(np.diff(found) > 0) - n / 2) < 5 * math.sqrt(n / 12)
    assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 5 / math.sqrt(n)
    assert abs(np.corrcoef(found, np.arange(n))[0, 1]) < 5 / math.sqrt(n)


@pytest.mark.parametrize("n", [-1, 2.0, True, 2**63])
def test_permutations_of_what_is_no_length(n):
    grid = sg.init_grid((1,))
    with pytest.raises(sg.ShapeError, match="permutation: n is"):
        sg.random.Generator().permutation(n, sg.Sharding(grid, [[0]]), grid)


def test_known_places_of_cells_are_checked_as_unknown_ones(spmd):
    def body():
        grid = sg.init_grid((3,))
        rows, halos = sg.Sharding(grid, [[0]]), sg.Sharding(grid, [[0]], halo_sizes=[1, 2])
        draws = [sg.random.Generator(3).random((7, 2), sharding, grid) for sharding in (rows, halos, rows, halos)]
        for found in draws[2:]:  # of known places
            np.testing.assert_array_equal(found.to_global(), draws[0].to_global())
        np.testing.assert_array_equal(draws[1].local, draws[3].local)
        assert draws[0].halos_are_fresh and not np.shares_memory(draws[0].local, draws[2].local)
        with pytest.raises(sg.ShardingError):
            sg.random.Generator(3).random((7.0, 2), rows, grid)
        grid.close()
        with pytest.raises(sg.GridError):
            sg.random.Generator(3).random((7, 2), rows, grid)

    spmd(3, body)
