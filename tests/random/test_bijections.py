"""The bijections behind permutations, against the same network in whole numbers of Python."""

import numpy as np
import pytest

from spmd_grid.kernels.random_integers import ROUNDS, fill_permutation

MULTIPLIER = 0xD2B74407B1CE6E93


def image(number, n, bits, keys):
    """The network's rounds, again and again until the image is below ``n``."""
    left = bits // 2
    right = bits - left
    while True:
        a, b = number >> right, number & (1 << right) - 1
        for key in keys:
            product = MULTIPLIER * a
            a, b = (
                ((product >> 64) ^ key ^ b) & (1 << left) - 1,
                (((product & 0xFFFFFFFF) << (right - left)) | (b >> left)) & (1 << right) - 1,
            )
        number = a << right | b
        if number < n:
            return number


@pytest.mark.parametrize("n", [200, 256, 257, 2**15 + 1, 2**31 - 5, 2**32, 2**32 + 1, 2**45 + 3, 2**62 + 1])
def test_images(n):
    """Of 8 to 63 bits: in words of 32 up to 2**32, else of 64."""
    bits = max(8, (n - 1).bit_length())
    keys = np.random.default_rng(n).integers(0, 2**64, ROUNDS, np.uint64)
    out, first = np.empty(min(n, 700), np.int64), max(0, n // 3 - 350)
    fill_permutation(out, np.uint64(first), np.uint64(n), np.uint64(bits), keys)
    assert out.tolist() == [image(first + i, n, bits, keys.tolist()) for i in range(len(out))]
