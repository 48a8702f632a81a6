"""Compiled random integers, all equally likely, and random permutations.

Integers: D. Lemire, "Fast Random Integer Generation in an Interval" (2019).  Cells of ranges of up to 2**32 have half a
word each, the lower half first, as in numpy.

Permutations are bijections of ``range(2**bits)``, applied again and again until the image lies in ``range(n)``, which
makes them bijections of that (J. Black, P. Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).  The bijection is a
Feistel network with the multiplications of Philox: R. Mitchell, D. Stokes, E. Frank, G. Holmes, "Bandwidth-Optimal
Random Shuffling for GPUs" (2022), with their 24 rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spmd_grid.kernels.compiled import Intrinsic, inner, kernel
from spmd_grid.kernels.philox import CHUNK, again, cell_words, half_word, high_product

__all__ = ["ROUNDS", "fill_permutation", "fill_uint32", "fill_uint64"]

ROUNDS = 24
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_HALF, _LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)
_MULTIPLIER, _MULTIPLIER_BITS = 0xD2B74407B1CE6E93, 64
_AT_ONCE = 512  # numbers that stay in the fastest cache from round to round


@inner
def _fill(
    out: np.ndarray,
    firsts: np.ndarray,
    stream: np.uint64,
    k0: np.uint64,
    k1: np.uint64,
    low: np.uint64,
    span: np.uint64,
) -> None:
    buffer = np.empty(CHUNK + 8, np.uint64)
    halved = span - _ONE <= _LOWER
    least = _ZERO if span == _ZERO else ((_ONE << _HALF) - span) % span if halved else (_ZERO - span) % span
    for row in range(out.shape[0]):
        for start in range(0, out.shape[1], CHUNK):
            first, n = firsts[row] + np.uint64(start), min(CHUNK, out.shape[1] - start)
            line = out[row, start:]
            if halved:
                odd = first & _ONE
                words = cell_words(buffer, first // _TWO, n // 2 + 1, stream, k0, k1)
                for i in range(n):
                    wide = half_word(words, np.uint64(i) + odd) * span
                    if (wide & _LOWER) < least:
                        attempt = _ZERO
                        while (wide & _LOWER) < least:
                            word, _, _ = again(first + np.uint64(i), attempt, stream, k0, k1)
                            wide = (word & _LOWER) * span
                            attempt += _ONE
                    line[i] = low + (wide >> _HALF)
                continue
            words = cell_words(buffer, first, n, stream, k0, k1)
            for i in range(n):
                word = words[i]
                attempt = _ZERO
                while word * span < least:
                    word, _, _ = again(first + np.uint64(i), attempt, stream, k0, k1)
                    attempt += _ONE
                line[i] = low + (high_product(word, span) if span else word)


# ``firsts``: the global index of each row's first cell; then the stream, the key, and the least number and the number
# of numbers, modulo 2**64.
_REST = "uint64[::1], uint64, uint64, uint64, uint64, uint64"


@kernel(f"void(uint64[:, ::1], {_REST})")
def fill_uint64(
    out: np.ndarray,
    firsts: np.ndarray,
    stream: np.uint64,
    k0: np.uint64,
    k1: np.uint64,
    low: np.uint64,
    span: np.uint64,
) -> None:
    """Whole numbers of [low, low + span), one per cell."""
    _fill(out, firsts, stream, k0, k1, low, span)


@kernel(f"void(uint32[:, ::1], {_REST})")
def fill_uint32(
    out: np.ndarray,
    firsts: np.ndarray,
    stream: np.uint64,
    k0: np.uint64,
    k1: np.uint64,
    low: np.uint64,
    span: np.uint64,
) -> None:
    """The same modulo 2**32."""
    _fill(out, firsts, stream, k0, k1, low, span)


@intrinsic
def _round(typingctx: Any, parts: types.Type, key: types.Type, left: types.Type, right: types.Type) -> Intrinsic:
    """A round for the left and the right part of a number, each of ``left`` and ``right`` bits.

    The parts have at most half the bits of their type.  So a product with the multiplier is made of products with its
    digits, of half the bits of the type, and of what each carries to the next.
    """

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        a, b = (builder.extract_value(args[0], i) for i in (0, 1))
        word = a.type
        one, half = ir.Constant(word, 1), word.width // 2
        of_key, of_left, of_right = (builder.trunc(each, word) if half < 32 else each for each in args[1:])
        digits = [_MULTIPLIER >> shift & ((1 << half) - 1) for shift in range(0, _MULTIPLIER_BITS, half)]
        lower, *products = [builder.mul(a, ir.Constant(word, digit)) for digit in digits]
        upper = builder.lshr(lower, ir.Constant(word, half))
        for product in products:
            upper = builder.lshr(builder.add(product, upper), ir.Constant(word, half))
        left_mask, right_mask = (builder.sub(builder.shl(one, each), one) for each in (of_left, of_right))
        moved = builder.or_(builder.shl(lower, builder.sub(of_right, of_left)), builder.lshr(b, of_left))
        after = builder.and_(builder.xor(builder.xor(upper, of_key), b), left_mask), builder.and_(moved, right_mask)
        return context.make_tuple(builder, signature.return_type, after)

    return parts(parts, types.uint64, types.uint64, types.uint64), emit


@inner
def _permute(left_parts: np.ndarray, right_parts: np.ndarray, n: int, bits: np.uint64, keys: np.ndarray) -> None:
    """One application of the bijection to ``n`` numbers, all of them round by round, in vectors.

    A number has a left part of ``bits // 2`` bits, and a right part of the others.  A round multiplies the left part:
    the upper 64 bits of the product, the key and the right part become the left one, the lower bits the right one.
    """
    left = bits // _TWO
    for round_ in range(ROUNDS):
        key = keys[round_]
        for i in range(n):
            left_parts[i], right_parts[i] = _round((left_parts[i], right_parts[i]), key, left, bits - left)


@inner
def _fill_images(
    out: np.ndarray, first: np.uint64, n: np.uint64, bits: np.uint64, keys: np.ndarray, a: np.ndarray, b: np.ndarray
) -> None:
    """`fill_permutation`, with ``a`` and ``b`` for the left and right parts of numbers."""
    waiting = np.empty(2 * _AT_ONCE, np.int64)
    right, end = bits - bits // _TWO, np.int64(n)
    right_mask = (_ONE << right) - _ONE
    n_begun, n_waiting = 0, 0
    while n_begun < len(out) or n_waiting:
        is_new = n_waiting < _AT_ONCE and n_begun < len(out)
        if is_new:
            taken, kept = min(_AT_ONCE, len(out) - n_begun), n_waiting
            start = first + np.uint64(n_begun)
            for i in range(taken):
                a[i], b[i] = (start + np.uint64(i)) >> right, (start + np.uint64(i)) & right_mask
        else:
            taken = min(_AT_ONCE, n_waiting)
            kept = n_waiting - taken
            for i in range(taken):
                image_before = np.uint64(out[waiting[kept + i]])
                a[i], b[i] = image_before >> right, image_before & right_mask
        _permute(a, b, taken, bits, keys)
        n_waiting = kept
        if is_new:
            line = out[n_begun : n_begun + taken]
            for i in range(taken):
                line[i] = np.int64(np.uint64(a[i]) << right | np.uint64(b[i]))
            for i in range(taken):
                waiting[n_waiting] = n_begun + i
                n_waiting += int(line[i] >= end)
            n_begun += taken
            continue
        for i in range(taken):
            at, image = waiting[kept + i], np.int64(np.uint64(a[i]) << right | np.uint64(b[i]))
            out[at] = image
            waiting[n_waiting] = at
            n_waiting += int(image >= end)


@kernel("void(int64[::1], uint64, uint64, uint64, uint64[::1])")
def fill_permutation(out: np.ndarray, first: np.uint64, n: np.uint64, bits: np.uint64, keys: np.ndarray) -> None:
    """Entries ``first``, ``first + 1``, ... of a permutation of ``range(n)``, n at most 2**bits.

    Those whose image is out of range wait until there are enough for a vector, and go on from it.  Parts of 16 bits are
    in words of 32, of which vectors have twice as many.
    """
    if bits <= _HALF:
        _fill_images(out, first, n, bits, keys, np.empty(_AT_ONCE, np.uint32), np.empty(_AT_ONCE, np.uint32))
    else:
        _fill_images(out, first, n, bits, keys, np.empty(_AT_ONCE, np.uint64), np.empty(_AT_ONCE, np.uint64))
