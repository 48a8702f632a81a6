"""Rounding of exact numbers against fractions, and against numpy where that rounds."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reductions_oracle import nearest, nearest_root, same_bits

from spmd_grid.reductions.rounding import rounded, rounded_root

DTYPES = [np.dtype(each) for each in ("f2", "f4", "f8")]


@given(st.integers(-(2**130), 2**130), st.integers(-1200, 1000), st.sampled_from(DTYPES))
def test_nearest(n, exponent, dtype):
    assert same_bits(rounded(n, exponent, dtype), nearest(n * Fraction(2) ** exponent, dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_power_and_its_neighbours(dtype):
    """Ties and almost ties, from below the smallest subnormal to beyond the largest number."""
    info = np.finfo(dtype)
    ones = (1 << info.nmant + 1) - 1
    for exponent in range(info.minexp - info.nmant - 3, info.maxexp + 2):
        for n in (1, 3, ones, ones + 1, 2 * ones + 1, 2 * ones - 1, 2 * ones + 3):
            for sticky in (-1, 0, 1):
                m, e = (n << 80) + sticky, exponent - 80 - n.bit_length()
                assert same_bits(rounded(m, e, dtype), nearest(m * Fraction(2) ** e, dtype)), (n, exponent, sticky)
                assert same_bits(rounded(-m, e, dtype), 0 - rounded(m, e, dtype))


def test_zero_has_a_plus_sign():
    assert math.copysign(1, rounded(0, -2176, np.dtype("f8"))) == 1
    assert math.copysign(1, rounded(-1, -2000, np.dtype("f8"))) == 1
    assert rounded(0, 5000, np.dtype("f8")) == 0


@given(st.integers(0, 2**200), st.integers(-1000, 900), st.sampled_from(DTYPES))
def test_nearest_root(n, half_exponent, dtype):
    root = rounded_root(n, 2 * half_exponent, dtype)
    assert same_bits(root, nearest_root(n * Fraction(4) ** half_exponent, dtype))


@given(st.floats(0, allow_infinity=False))
def test_roots_are_numpys_where_it_has_them(x):
    n, denominator = x.as_integer_ratio()
    exponent = 1 - denominator.bit_length()
    assert rounded_root(n << exponent % 2, exponent - exponent % 2, np.dtype("f8")) == np.sqrt(x)
