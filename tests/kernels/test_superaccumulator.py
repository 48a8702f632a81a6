"""The superaccumulator against fractions: every bit of every sum, whatever the values."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spmd_grid.kernels.array_object import address_of
from spmd_grid.kernels.reduce.superaccumulator import BLOCK_NUMBERS, LIMBS, LOWEST, WORDS, adders_of

ANY = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SPECIAL = [0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 2.0**-960, 2.0**-961, 2.0**1020, 1.7976931348623157e308]
FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def added(x, y=None, words=None):
    """The words of the sum of x, or of x * y."""
    words = np.zeros(WORDS, np.int64) if words is None else words
    adders = adders_of(x.dtype)
    if y is None:
        adders.numbers(words, address_of(x), x.size)
    else:
        adders.products(words, address_of(x), address_of(y), x.size)
    return words


def exact_value(words):
    return Fraction(sum(word << 32 * i for i, word in enumerate(words[:LIMBS].tolist()))) * Fraction(2) ** LOWEST


def oracle(x, y=None):
    """(exact sum of the finite terms, infinities above, below, NaNs), term by term."""
    total, specials = Fraction(0), [0, 0, 0]
    for a, b in zip(x.tolist(), [1.0] * len(x) if y is None else y.tolist(), strict=True):
        if math.isfinite(a) and math.isfinite(b):
            total += Fraction(a) * Fraction(b)
        else:
            specials[2 if math.isnan(a * b) else a * b < 0] += 1
    return total, specials


def check(x, y=None):
    words = added(x, y)
    assert (exact_value(words), words[LIMBS:].tolist()) == oracle(x, y)
    assert (0 <= words[: LIMBS - 1]).all() and (words[: LIMBS - 1] < 2**32).all()


@given(st.lists(ANY | st.sampled_from(SPECIAL), max_size=40), st.integers(0, 3))
def test_any_doubles(values, copies):
    check(np.array(values * (1 + copies)))


@given(st.lists(st.tuples(ANY | st.sampled_from(SPECIAL), ANY | st.sampled_from(SPECIAL)), max_size=30))
def test_any_products(pairs):
    x, y = np.array(pairs).reshape(-1, 2).T.copy()
    check(x, y)
    check(x, x.copy())


@given(st.lists(FLOAT32, max_size=40))
def test_any_float32(values):
    x = np.array(values, "f4")
    check(x)
    check(x, x[::-1].copy())


@given(st.lists(FINITE, min_size=1, max_size=20))
def test_cancellation_is_total(values):
    x = np.array(values)
    assert exact_value(added(np.concatenate([x, -x[::-1]]))) == 0
    assert exact_value(added(np.concatenate([x, x]), np.concatenate([x, -x]))) == 0


@given(st.lists(FINITE, min_size=1, max_size=30), st.data())
def test_splitting_and_order_change_nothing(values, data):
    """Accumulators are added word by word, as an all_reduce does."""
    x = np.array(values)
    order = np.array(data.draw(st.permutations(range(len(x)))))
    cut = data.draw(st.integers(0, len(x)))
    one, other = (part.copy() for part in np.split(x[order], [cut]))
    assert (
        exact_value(added(one) + added(other)) == exact_value(added(x)) == exact_value(added(other, None, added(one)))
    )
    assert exact_value(added(one, one) + added(other, other)) == exact_value(added(x, x))


@pytest.mark.parametrize("n", [BLOCK_NUMBERS - 1, BLOCK_NUMBERS, BLOCK_NUMBERS + 1, 3 * BLOCK_NUMBERS + 7])
@pytest.mark.parametrize("spread", [0, 40, 120, 500, 1000])
def test_blocks(n, spread):
    """Across blocks, with exponents so far apart that a block takes one round or many; float32 as far as it goes."""
    random = np.random.default_rng([n, spread])
    x, y = (random.standard_normal((2, n)) * 2.0 ** random.integers(-spread, spread + 1, (2, n))).copy()
    check(x)
    check(x, y)
    if spread <= 40:
        check(x.astype("f4"))
        check(x.astype("f4"), y.astype("f4"))


@pytest.mark.parametrize("value", [*SPECIAL, 1.0, 2.0**-1000, 1 + 2.0**-52, 2 - 2.0**-52, -(2 - 2.0**-52) * 2.0**31])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_equal_numbers_fill_a_block(value, dtype):
    """Blocks in which sums of extracted integers and of limbs are largest."""
    with np.errstate(over="ignore", under="ignore"):
        x = np.full(2 * BLOCK_NUMBERS, value, dtype)
    total, specials = oracle(x[:1])
    words = added(x)
    assert exact_value(words) == total * len(x) and words[LIMBS:].tolist() == [each * len(x) for each in specials]
    total, specials = oracle(x[:1], x[:1])
    words = added(x, x)
    assert exact_value(words) == total * len(x) and words[LIMBS:].tolist() == [each * len(x) for each in specials]


def test_halves_at_ties():
    """Numbers at exactly half a unit of what a round extracts."""
    ulp = 2.0**-52
    x = np.array([1.0, ulp * 2, ulp, -ulp, ulp / 2, -ulp / 2, 3 * ulp / 2, 2.0**-53 - 2.0**-106, -(2.0**-54)] * 50)
    check(x)
    check(x * 2.0**900)
    check(x * 2.0**-900)
    check(x, x[::-1].copy())


@pytest.mark.parametrize(
    "exponent", [-1074, -1060, -1020, -990, -984, -970, -961, -958, -500, 0, 990, 1018, 1019, 1020, 1021]
)
def test_blocks_at_every_height(exponent):
    """Heights at which extraction begins and ends to be possible, and at which products leave the range of doubles."""
    random = np.random.default_rng(exponent + 2000)
    x = np.ldexp(random.uniform(-4, 4, 300), exponent)
    check(x)
    for other in (0, exponent, min(-exponent, 1020), -530, 500):
        check(x, np.ldexp(random.uniform(-4, 4, 300), other))
    half = np.ldexp(random.uniform(-4, 4, 300), exponent // 2)
    check(half, half[::-1].copy())


def test_most_of_many_accumulators():
    """Words of 2**30 processes still add without overflow."""
    words = added(np.array([-1e-300, 1e300]))
    assert exact_value(words << 30) == exact_value(words) * 2**30


def test_no_numbers():
    assert not added(np.empty(0)).any() and not added(np.empty(0), np.empty(0)).any()
