"""Exact sums of doubles and of their products, in integers wide enough that no addition rounds.

The accumulator is the small superaccumulator of R. M. Neal, "Fast Exact Summation Using Small and Large
Superaccumulators" (arXiv:1505.05571, 2015): limbs of 32 bits in words of 64, so that many numbers are added before a
carry has to move.  This one reaches from the last bit of the smallest product of two doubles, 2**-2148, beyond the sum
of 2**63 of the largest.  Infinities and NaNs are counted beside it.  Since integers add in any order and any grouping,
so do accumulators: the sum of those of all processes is that of all numbers.

    word   0 ... 135                                  136              137              138
           limbs of weight 2**(LOWEST + 32 * word)    infinities > 0   infinities < 0   NaNs

Adding number by number takes some nanoseconds each.  Blocks go faster, by the error-free extraction of S. M. Rump,
T. Ogita, S. Oishi, "Accurate Floating-Point Summation Part I: Faithful Rounding" (SIAM J. Sci. Comput. 31, 2008):
with 2**(k-1) above all |x| of the block and s = 1.5 * 2**k, the rounded sum s + x has the high bits of x as its own
last bits, and (s + x) - s takes them off x without an error.  Those bits are integers in units of 2**(k-52); integers
may be added in any order, so the compiler uses vectors.  Two extractions take the 104 highest bits of the whole block,
which are mostly all; while bits are left, two more follow.

A product is the sum of two doubles, x * y rounded and the error fma(x, y, -x * y) (TwoProduct in T. Ogita, S. M. Rump,
S. Oishi, "Accurate Sum and Dot Product", SIAM J. Sci. Comput. 26, 2005), where neither can overflow or lose bits to
underflow; elsewhere the significands are multiplied as integers.
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

BLOCK = 2048  # numbers at a time: the block stays in the L1 cache, and its extracted integers stay below 2**62

_LIMB = (1 << 32) - 1
_SIZE = (1 << 63) - 1  # all bits but the sign
_FRACTION = (1 << 52) - 1
_SPECIAL = 2047  # the exponent field of infinities and NaNs
_HALF = (1 << 26) - 1  # the lower bits of a significand


def _bits_of_power(exponent: int) -> int:
    return (1023 + exponent) << 52


_EXTRACTS_FROM = _bits_of_power(-960)  # below it, the unit of the second extraction would be no double
_EXTRACTS_BELOW = _bits_of_power(1020)  # above it, 1.5 * 2**k would be no double
_PRODUCT_FROM = _bits_of_power(-968)  # below it, the error of a product may need bits beyond the last of doubles


@inner
def _add(words: np.ndarray, value: int, exponent: int) -> None:
    """Add the int64 ``value`` times 2**exponent, which adds less than 2**34 to each limb."""
    position = exponent - LOWEST
    limb, shift = position >> 5, position & 31
    low = (value & _LIMB) << shift
    high = (value >> 32) << shift
    words[limb] += low & _LIMB
    words[limb + 1] += (low >> 32) + (high & _LIMB)
    words[limb + 2] += high >> 32


@inner
def _carry(words: np.ndarray) -> None:
    """Carry, so that all limbs but the last, which has the sign, are from 0 to below 2**32."""
    carry = 0
    for i in range(LIMBS - 1):
        word = words[i] + carry
        words[i] = word & _LIMB
        carry = word >> 32
    words[LIMBS - 1] += carry


@inner
def _is_special(x: float) -> bool:
    return (bits_of(x) & _SIZE) >> 52 == _SPECIAL


@inner
def _count(words: np.ndarray, x: float) -> None:
    """Count an infinity or a NaN."""
    words[LIMBS + (2 if x != x else 1 if x < 0 else 0)] += 1


@inner
def _split(x: float) -> tuple[int, int]:
    """(m, e) with x == m * 2**e, m an integer of up to 53 bits and a sign, of a finite x."""
    bits = bits_of(x)
    field, significand = (bits & _SIZE) >> 52, bits & _FRACTION
    if field:
        significand |= _FRACTION + 1
    return -significand if bits < 0 else significand, max(field, 1) - 1075


@inner
def _add_number(words: np.ndarray, x: float) -> None:
    if _is_special(x):
        _count(words, x)
    else:
        significand, exponent = _split(x)
        _add(words, significand, exponent)


@inner
def _add_product(words: np.ndarray, x: float, y: float) -> None:
    """Add x * y as the products of the halves of their significands."""
    if _is_special(x) or _is_special(y):
        _count(words, x * y)
    else:
        m, e = _split(x)
        n, f = _split(y)
        e += f
        m1, m0, n1, n0 = m >> 26, m & _HALF, n >> 26, n & _HALF
        _add(words, m1 * n1, e + 52)
        _add(words, m1 * n0 + m0 * n1, e + 26)
        _add(words, m0 * n0, e)


@inner
def _bits(k: int) -> int:
    """The bits of 1.5 * 2**k."""
    return ((k + 1023) << 52) | (1 << 51)


@inner
def _extract(words: np.ndarray, x: np.ndarray, largest: int) -> int:
    """Move the 104 highest bits of a block from ``x`` into the limbs; returns the bits of the largest size left in x.

    ``largest``: the bits of the largest size in x.
    """
    k = (largest >> 52) - 1023 + 2
    coarse_bits = _bits(k)
    fine_bits = _bits(k - 52)
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
        left = max(left, bits_of(rest) & _SIZE)
        x[i] = rest
    _add(words, high, k - 52)
    _add(words, low, k - 104)
    return left


@inner
def _add_block(words: np.ndarray, x: np.ndarray) -> None:
    """Add the doubles of ``x``, at most BLOCK of them; overwrites x."""
    largest = 0
    for i in range(x.size):
        largest = max(largest, bits_of(x[i]) & _SIZE)
    while _EXTRACTS_FROM <= largest < _EXTRACTS_BELOW:
        largest = _extract(words, x, largest)
    if largest:
        for i in range(x.size):
            if x[i] != 0.0:
                _add_number(words, x[i])
        _carry(words)


@inner
def _is_two_doubles(x: float, y: float, product: float) -> bool:
    """Whether x * y is exactly ``product``, its rounded value, and one double more, both far from overflow."""
    size = bits_of(product) & _SIZE
    return (_PRODUCT_FROM <= size < _EXTRACTS_BELOW) | ((size == 0) & ((x == 0.0) | (y == 0.0)))


def _make_add_numbers(element: str) -> Callable[[np.ndarray, int, int], None]:
    @kernel("void(int64[::1], int64, int64)", element)
    def add_numbers(words: np.ndarray, address: int, n: int) -> None:
        numbers = carray(pointer(address, element), n)
        memory = np.empty(BLOCK)
        for start in range(0, n, BLOCK):
            source = numbers[start : min(start + BLOCK, n)]
            block = memory[: source.size]
            for i in range(source.size):
                block[i] = source[i]
            _add_block(words, block)
        _carry(words)

    return add_numbers


def _make_add_products(element: str) -> Callable[[np.ndarray, int, int, int], None]:
    # Two float32 have products that are doubles, all of them far from overflow and underflow.
    is_exact = element == "f4"

    @kernel("void(int64[::1], int64, int64, int64)", element)
    def add_products(words: np.ndarray, x_address: int, y_address: int, n: int) -> None:
        all_x, all_y = carray(pointer(x_address, element), n), carray(pointer(y_address, element), n)
        product_memory, error_memory = np.empty(BLOCK), np.empty(BLOCK)
        for start in range(0, n, BLOCK):
            x, y = all_x[start : min(start + BLOCK, n)], all_y[start : min(start + BLOCK, n)]
            products, errors = product_memory[: x.size], error_memory[: x.size]
            if is_exact:
                for i in range(x.size):
                    products[i] = np.float64(x[i]) * np.float64(y[i])
            else:
                others = 0
                for i in range(x.size):
                    product = x[i] * y[i]
                    taken = _is_two_doubles(x[i], y[i], product)
                    products[i] = product if taken else 0.0
                    errors[i] = fma(x[i], y[i], -product) if taken else 0.0
                    others += not taken
                if others:
                    for i in range(x.size):
                        if not _is_two_doubles(x[i], y[i], x[i] * y[i]):
                            _add_product(words, x[i], y[i])
                    _carry(words)
                _add_block(words, errors)
            _add_block(words, products)
        _carry(words)

    return add_products


class Adders(NamedTuple):
    """The kernels of one element type, which need no GIL.

    ``numbers(words, address, n)`` adds n numbers, ``products(words, x_address, y_address, n)`` the products of two
    arrays, element by element: contiguous, aligned and native.  ``words`` is int64 of shape (WORDS,), zeros to begin
    with; the kernels leave limbs below 2**32, so that those of 2**31 accumulators can be added word by word.
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
