"""Exact sums of doubles and of their products, in integers wide enough that no addition rounds.

The accumulator is the small superaccumulator of R. M. Neal, "Fast Exact Summation Using Small and Large
Superaccumulators" (arXiv:1505.05571, 2015): limbs of 32 bits in words of 64, so that many numbers are added before
carries must be propagated.  Its range is from the last bit of the smallest product of two doubles, 2**-2148, to beyond
the sum of 2**63 of the largest products.  Infinities and NaNs are counted in words of their own.  Integer addition is
associative and commutative, so accumulators can be added in any order: the sum of all processes' accumulators is the
accumulator of all numbers.

    word   0 ... 135                                  136              137              138
           limbs of weight 2**(LOWEST + 32 * word)    infinities > 0   infinities < 0   NaNs

Adding one number takes a few nanoseconds.  Whole blocks are faster, by the error-free extraction of S. M. Rump,
T. Ogita, S. Oishi, "Accurate Floating-Point Summation Part I: Faithful Rounding" (SIAM J. Sci. Comput. 31, 2008):
with 2**(k-1) above all |x| of the block and s = 1.5 * 2**k, the last bits of the rounded sum s + x are the high bits of
x, and subtracting (s + x) - s from x removes them exactly.  They are an integer in units of 2**(k-52), and integers may
be added in any order, so the compiler vectorizes the loop.  A pass over the block makes two extractions, which remove
its 104 highest bits, usually all of them; passes are repeated while any bits are left.

A product is the sum of two doubles, the rounded x * y and its error fma(x, y, -x * y) (TwoProduct in T. Ogita,
S. M. Rump, S. Oishi, "Accurate Sum and Dot Product", SIAM J. Sci. Comput. 26, 2005), unless one of them overflows or
loses bits to underflow; such products are computed from the significands as integers.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import numba  # noqa: F401 - imported first: see compiled.py
import numpy as np
from numba import carray

from spmd_grid.kernels.address import pointer
from spmd_grid.kernels.compiled import inner, kernel
from spmd_grid.kernels.reduce.float_bits import bits_of, float_of, fma

__all__ = ["LIMBS", "LOWEST", "WORDS", "Adders", "adders_of"]

LIMBS = 136
LOWEST = -2176  # the weight of the first limb is 2**LOWEST
WORDS = LIMBS + 3

BLOCK_NUMBERS = 2048  # a block stays in the L1 cache, and the sum of its extracted integers stays below 2**62

_LIMB_MASK = (1 << 32) - 1
_MAGNITUDE_MASK = (1 << 63) - 1  # all bits but the sign; magnitudes compare as their bits do
_FRACTION_MASK = (1 << 52) - 1
_LOW_HALF_MASK = (1 << 26) - 1  # the lower half of a significand
_NONFINITE_FIELD = 2047  # the exponent field of infinities and NaNs


def _bits_of_power(exponent: int) -> int:
    """The bits of the double 2**exponent."""
    return (1023 + exponent) << 52


# Blocks whose largest magnitude is in this range go through extraction, other blocks number by number.
_EXTRACTION_MIN = _bits_of_power(-960)  # below, the unit of the second extraction would be no double
_EXTRACTION_END = _bits_of_power(1020)  # from here on, 1.5 * 2**k would be no double
_PRODUCT_MIN = _bits_of_power(-968)  # below, the error of a product may need bits that doubles do not have


@inner
def _add_scaled(words: np.ndarray, value: int, exponent: int) -> None:
    """Add the int64 ``value`` times 2**exponent; each limb changes by less than 2**34."""
    position = exponent - LOWEST
    limb, shift = position >> 5, position & 31
    low = (value & _LIMB_MASK) << shift
    high = (value >> 32) << shift
    words[limb] += low & _LIMB_MASK
    words[limb + 1] += (low >> 32) + (high & _LIMB_MASK)
    words[limb + 2] += high >> 32


@inner
def _carry(words: np.ndarray) -> None:
    """Propagate carries: afterwards all limbs are in [0, 2**32) but the last, which has the sign."""
    carry = 0
    for i in range(LIMBS - 1):
        word = words[i] + carry
        words[i] = word & _LIMB_MASK
        carry = word >> 32
    words[LIMBS - 1] += carry


@inner
def _is_nonfinite(x: float) -> bool:
    return (bits_of(x) & _MAGNITUDE_MASK) >> 52 == _NONFINITE_FIELD


@inner
def _count_nonfinite(words: np.ndarray, x: float) -> None:
    """Count ``x``, an infinity or a NaN."""
    words[LIMBS + (2 if x != x else 1 if x < 0 else 0)] += 1


@inner
def _split(x: float) -> tuple[int, int]:
    """Integers (m, e) with m * 2**e == x and |m| < 2**53, for a finite x."""
    bits = bits_of(x)
    field, significand = (bits & _MAGNITUDE_MASK) >> 52, bits & _FRACTION_MASK
    if field:
        significand |= _FRACTION_MASK + 1
    return -significand if bits < 0 else significand, max(field, 1) - 1075


@inner
def _add_number(words: np.ndarray, x: float) -> None:
    if _is_nonfinite(x):
        _count_nonfinite(words, x)
    else:
        significand, exponent = _split(x)
        _add_scaled(words, significand, exponent)


@inner
def _add_product(words: np.ndarray, x: float, y: float) -> None:
    """Add x * y exactly: the products of the halves of their significands fit into int64."""
    if _is_nonfinite(x) or _is_nonfinite(y):
        _count_nonfinite(words, x * y)
    else:
        m, m_exponent = _split(x)
        n, n_exponent = _split(y)
        exponent = m_exponent + n_exponent
        m_high, m_low, n_high, n_low = m >> 26, m & _LOW_HALF_MASK, n >> 26, n & _LOW_HALF_MASK
        _add_scaled(words, m_high * n_high, exponent + 52)
        _add_scaled(words, m_high * n_low + m_low * n_high, exponent + 26)
        _add_scaled(words, m_low * n_low, exponent)


@inner
def _extractor_bits(k: int) -> int:
    """The bits of 1.5 * 2**k, to which numbers are added to extract their high bits."""
    return ((k + 1023) << 52) | (1 << 51)


@inner
def _extract(words: np.ndarray, x: np.ndarray, largest: int) -> int:
    """Move the 104 highest bits of a block from ``x`` into the limbs.

    ``largest``: the bits of the largest magnitude in x.  Returns those of the largest magnitude that is left in x.
    """
    k = (largest >> 52) - 1023 + 2
    coarse_bits = _extractor_bits(k)
    fine_bits = _extractor_bits(k - 52)
    coarse, fine = float_of(coarse_bits), float_of(fine_bits)
    high = low = left = 0
    for i in range(x.size):
        rest = x[i]
        shifted = coarse + rest
        high += bits_of(shifted) - coarse_bits
        rest -= shifted - coarse
        shifted = fine + rest
        low += bits_of(shifted) - fine_bits
        rest -= shifted - fine
        left = max(left, bits_of(rest) & _MAGNITUDE_MASK)
        x[i] = rest
    _add_scaled(words, high, k - 52)
    _add_scaled(words, low, k - 104)
    return left


@inner
def _add_block(words: np.ndarray, x: np.ndarray) -> None:
    """Add the doubles of ``x``, at most BLOCK_NUMBERS of them.  Overwrites x."""
    largest = 0
    for i in range(x.size):
        largest = max(largest, bits_of(x[i]) & _MAGNITUDE_MASK)
    while _EXTRACTION_MIN <= largest < _EXTRACTION_END:
        largest = _extract(words, x, largest)
    if largest:
        for i in range(x.size):
            if x[i] != 0.0:
                _add_number(words, x[i])
        _carry(words)


@inner
def _error_is_double(x: float, y: float, product: float) -> bool:
    """Whether the error of ``product``, the rounded x * y, is a double, and the product is far from overflow."""
    magnitude = bits_of(product) & _MAGNITUDE_MASK
    # | and & rather than `or` and `and`, which would put branches into the loop over a block.
    return (_PRODUCT_MIN <= magnitude < _EXTRACTION_END) | ((magnitude == 0) & ((x == 0.0) | (y == 0.0)))


@inner
def _split_products(words: np.ndarray, x: np.ndarray, y: np.ndarray, products: np.ndarray, errors: np.ndarray) -> None:
    """Write the rounded products of a block and their errors; add those products whose errors are no doubles."""
    n_skipped = 0
    for i in range(x.size):
        product = x[i] * y[i]
        is_split = _error_is_double(x[i], y[i], product)
        products[i] = product if is_split else 0.0
        errors[i] = fma(x[i], y[i], -product) if is_split else 0.0
        n_skipped += not is_split
    if n_skipped:
        for i in range(x.size):
            if not _error_is_double(x[i], y[i], x[i] * y[i]):
                _add_product(words, x[i], y[i])
        _carry(words)


def _make_add_numbers(element: str) -> Callable[[np.ndarray, int, int], None]:
    @kernel("void(int64[::1], int64, int64)", element)
    def add_numbers(words: np.ndarray, address: int, n: int) -> None:
        numbers = carray(pointer(address, element), n)
        memory = np.empty(BLOCK_NUMBERS)
        for start in range(0, n, BLOCK_NUMBERS):
            source = numbers[start : min(start + BLOCK_NUMBERS, n)]
            block = memory[: source.size]
            for i in range(source.size):
                block[i] = source[i]
            _add_block(words, block)
        _carry(words)

    return add_numbers


def _make_add_products(element: str) -> Callable[[np.ndarray, int, int, int], None]:
    # The product of two float32 is a double, far from overflow and underflow.
    products_are_exact = element == "f4"

    @kernel("void(int64[::1], int64, int64, int64)", element)
    def add_products(words: np.ndarray, x_address: int, y_address: int, n: int) -> None:
        all_x, all_y = carray(pointer(x_address, element), n), carray(pointer(y_address, element), n)
        product_memory, error_memory = np.empty(BLOCK_NUMBERS), np.empty(BLOCK_NUMBERS)
        for start in range(0, n, BLOCK_NUMBERS):
            x, y = all_x[start : min(start + BLOCK_NUMBERS, n)], all_y[start : min(start + BLOCK_NUMBERS, n)]
            products, errors = product_memory[: x.size], error_memory[: x.size]
            if products_are_exact:
                for i in range(x.size):
                    products[i] = np.float64(x[i]) * np.float64(y[i])
            else:
                _split_products(words, x, y, products, errors)
                _add_block(words, errors)
            _add_block(words, products)
        _carry(words)

    return add_products


class Adders(NamedTuple):
    """The kernels for one element type; they run without the GIL.

    ``numbers(words, address, n)`` adds n numbers; ``products(words, x_address, y_address, n)`` adds the elementwise
    products of two arrays.  Arrays are contiguous, aligned and in native byte order.  ``words`` is an int64 array of
    shape (WORDS,), initially zeros.  The kernels leave limbs below 2**32, so that up to 2**31 accumulators can be added
    word by word without overflow.
    """

    numbers: Callable[[np.ndarray, int, int], None]
    products: Callable[[np.ndarray, int, int, int], None]


_adders: dict[np.dtype, Adders] = {}
_lock = Lock()


def adders_of(dtype: np.dtype) -> Adders:
    """The kernels for float32 or float64, compiled or loaded from the cache at their first use.

    Local, and safe to call from several threads.
    """
    found = _adders.get(dtype)
    if found is None:
        with _lock:
            found = _adders.get(dtype)
            if found is None:
                element = dtype.str[1:]
                found = _adders[dtype] = Adders(_make_add_numbers(element), _make_add_products(element))
    return found
