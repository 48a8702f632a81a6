"""Compiled random numbers by counter: the number of a cell depends on the key, the stream and its global index alone.

Philox4x64-10 of J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (2011), as
numpy's ``Philox`` has it: the words of block b, from 1 on, are those of the counter (b, 0, stream, 0).  Cell i has word
``i % 4`` of block ``i // 4 + 1``.  Where a word is rejected, the cell takes words of later attempts, whose
counter is (i + 1, attempt, stream, 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spmd_grid.kernels.compiled import inner, kernel

__all__ = ["fill_exponentials", "fill_integers", "fill_normals", "fill_uniforms", "fill_words"]

_ROUNDS = 10
_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_ZERO, _ONE, _FOUR, _ELEVEN = np.uint64(0), np.uint64(1), np.uint64(4), np.uint64(11)
_UNIT = 1.0 / 9007199254740992.0  # 2**-53
_CHUNK = 1024  # words that stay in the fastest cache while they become numbers
_I64 = ir.IntType(64)


@intrinsic
def _high(typingctx: Any, a: Any, b: Any) -> tuple[Any, Callable[..., Any]]:
    """The upper 64 bits of the product of two words."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _I64)

    return types.uint64(types.uint64, types.uint64), emit


@inner
def _block(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    for _ in range(_ROUNDS):
        c0, c1, c2, c3 = _high(_M1, c2) ^ c1 ^ k0, _M1 * c2, _high(_M0, c0) ^ c3 ^ k1, _M0 * c0
        k0 += _W0
        k1 += _W1
    return c0, c1, c2, c3


@inner
def _row(words: np.ndarray, first: np.uint64, n: int, stream: np.uint64, k0: np.uint64, k1: np.uint64) -> None:
    """The words of cells ``first`` to ``first + n``, at the start of ``words``."""
    at = -np.int64(first % _FOUR)
    block = first // _FOUR + _ONE
    while at < n:
        a, b, c, d = _block(block, _ZERO, stream, _ZERO, k0, k1)
        if at >= 0 and at + 4 <= n:
            words[at], words[at + 1], words[at + 2], words[at + 3] = a, b, c, d
        else:
            if 0 <= at < n:
                words[at] = a
            if 0 <= at + 1 < n:
                words[at + 1] = b
            if 0 <= at + 2 < n:
                words[at + 2] = c
            if 0 <= at + 3 < n:
                words[at + 3] = d
        at += 4
        block += _ONE


@inner
def _again(
    cell: np.uint64, attempt: np.uint64, stream: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Three words of a later attempt of one cell."""
    a, b, c, _ = _block(cell + _ONE, attempt, stream, _ONE, k0, k1)
    return a, b, c


# Rows are ``words`` and, in the same memory, what comes out of them; ``firsts``: the global index of each row's first
# cell; then the stream and the key.
_ROWS = "uint64[:, ::1], uint64[::1], uint64, uint64, uint64"
_FLOATS = f"float64[:, ::1], {_ROWS}"


@kernel(f"void({_ROWS})")
def fill_words(words: np.ndarray, firsts: np.ndarray, stream: np.uint64, k0: np.uint64, k1: np.uint64) -> None:
    """The words themselves."""
    for row in range(words.shape[0]):
        _row(words[row], firsts[row], words.shape[1], stream, k0, k1)


@kernel(f"void({_FLOATS})")
def fill_uniforms(
    out: np.ndarray, words: np.ndarray, firsts: np.ndarray, stream: np.uint64, k0: np.uint64, k1: np.uint64
) -> None:
    """Doubles of [0, 1): the upper 53 bits of each word."""
    for row in range(out.shape[0]):
        for start in range(0, out.shape[1], _CHUNK):
            n = min(_CHUNK, out.shape[1] - start)
            line, bits = out[row, start:], words[row, start:]
            _row(bits, firsts[row] + np.uint64(start), n, stream, k0, k1)
            for i in range(n):
                line[i] = np.float64(bits[i] >> _ELEVEN) * _UNIT


@kernel(f"void({_FLOATS})")
def fill_exponentials(
    out: np.ndarray, words: np.ndarray, firsts: np.ndarray, stream: np.uint64, k0: np.uint64, k1: np.uint64
) -> None:
    """Standard exponential numbers, by the inverse of their distribution."""
    for row in range(out.shape[0]):
        for start in range(0, out.shape[1], _CHUNK):
            n = min(_CHUNK, out.shape[1] - start)
            line, bits = out[row, start:], words[row, start:]
            _row(bits, firsts[row] + np.uint64(start), n, stream, k0, k1)
            for i in range(n):
                line[i] = -math.log1p(-np.float64(bits[i] >> _ELEVEN) * _UNIT)


@kernel(f"void({_ROWS}, uint64)")
def fill_integers(
    words: np.ndarray, firsts: np.ndarray, stream: np.uint64, k0: np.uint64, k1: np.uint64, span: np.uint64
) -> None:
    """Whole numbers of [0, span), all equally likely; for ``span`` 0 of 64 bits.

    D. Lemire, "Fast Random Integer Generation in an Interval" (2019).
    """
    least = (_ZERO - span) % span if span else _ZERO
    for row in range(words.shape[0]):
        line, first = words[row], firsts[row]
        _row(line, first, words.shape[1], stream, k0, k1)
        if span == _ZERO:
            continue
        for i in range(words.shape[1]):
            word = line[i]
            attempt = _ZERO
            while word * span < least:
                word, _, _ = _again(first + np.uint64(i), attempt, stream, k0, k1)
                attempt += _ONE
            line[i] = _high(word, span)


# -- the ziggurat --------------------------------------------------------------------------------------------------
# G. Marsaglia, W. W. Tsang, "The Ziggurat Method for Generating Random Variables" (2000), with 256 layers.

_LAYERS = 256
_R = 3.6541528853610087963519472518  # where the tail begins
_V = 0.00492867323399141  # the area of each layer


def _tables() -> tuple[np.ndarray, np.ndarray]:
    x, y = np.empty(_LAYERS + 1), np.empty(_LAYERS + 1)
    x[0], x[1] = _V / math.exp(-0.5 * _R * _R), _R
    for i in range(1, _LAYERS - 1):
        x[i + 1] = math.sqrt(-2.0 * math.log(_V / x[i] + math.exp(-0.5 * x[i] * x[i])))
    x[_LAYERS] = 0.0
    y[:] = np.exp(-0.5 * x * x)
    return x, y


_X, _Y = _tables()
_SIGN, _MASK = np.uint64(256), np.uint64(255)
_TWELVE = np.uint64(12)
_UNIT52 = 1.0 / 4503599627370496.0  # 2**-52


@inner
def _signed(x: float, word: np.uint64) -> float:
    return -x if word & _SIGN else x


@inner
def _tail(
    first: np.uint64,
    second: np.uint64,
    cell: np.uint64,
    attempt: np.uint64,
    stream: np.uint64,
    k0: np.uint64,
    k1: np.uint64,
) -> float:
    """A number beyond ``_R``, of words of the cell's attempts until one is accepted."""
    while True:
        far = -math.log1p(-np.float64(first >> _ELEVEN) * _UNIT) / _R
        near = -math.log1p(-np.float64(second >> _ELEVEN) * _UNIT)
        if near + near > far * far:
            return _R + far
        first, second, _ = _again(cell, attempt, stream, k0, k1)
        attempt += _ONE


@inner
def _normal(word: np.uint64, cell: np.uint64, stream: np.uint64, k0: np.uint64, k1: np.uint64) -> float:
    """A standard normal number from a word, and from later attempts where it is rejected."""
    attempt = _ZERO
    while True:
        layer = word & _MASK
        x = np.float64(word >> _TWELVE) * _UNIT52 * _X[layer]
        if x < _X[layer + _ONE]:
            break
        first, second, third = _again(cell, attempt, stream, k0, k1)
        attempt += _ONE
        if layer == _ZERO:
            return _signed(_tail(first, second, cell, attempt, stream, k0, k1), word)
        u = np.float64(first >> _ELEVEN) * _UNIT
        if _Y[layer] + u * (_Y[layer + _ONE] - _Y[layer]) < math.exp(-0.5 * x * x):
            break
        word = third
    return _signed(x, word)


@kernel(f"void({_FLOATS})")
def fill_normals(
    out: np.ndarray, words: np.ndarray, firsts: np.ndarray, stream: np.uint64, k0: np.uint64, k1: np.uint64
) -> None:
    """Standard normal numbers."""
    for row in range(out.shape[0]):
        for start in range(0, out.shape[1], _CHUNK):
            n = min(_CHUNK, out.shape[1] - start)
            line, bits = out[row, start:], words[row, start:]
            first = firsts[row] + np.uint64(start)
            _row(bits, first, n, stream, k0, k1)
            for i in range(n):
                line[i] = _normal(bits[i], first + np.uint64(i), stream, k0, k1)
