"""Compiled random floats: uniform ones, and normal and exponential ones by the ziggurat method.

G. Marsaglia, W. W. Tsang, "The Ziggurat Method for Generating Random Variables" (2000), with 256 layers.  The area
under the density is cut into layers of equal area.  One word gives the layer, the sign and the column of the layer's
rectangle; 99 of 100 lie in the part of the rectangle that is all under the density.  For the others the cell draws
words of its own (`philox.again`), until one is accepted.  Uniform numbers of up to 32 bits take half a word each, the
lower half first, as in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numba  # noqa: F401 - imported first: see compiled.py
import numpy as np

from spmd_grid.kernels.compiled import inner, kernel
from spmd_grid.kernels.philox import CHUNK, again, cell_words, half_word

__all__ = ["EXPONENTIAL", "NORMAL", "UNIFORM", "fill_float32", "fill_float64"]

UNIFORM, NORMAL, EXPONENTIAL = 0, 1, 2

_ZERO, _ONE, _TWO, _ELEVEN, _TWELVE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(11), np.uint64(12)
_LAYER, _SIGNED_LAYER, _SIGN = np.uint64(255), np.uint64(511), np.uint64(256)
_UNIT = 2.0**-53


def _ziggurat(
    r: float, v: float, bits: int, density: Callable[[float], float], inverse: Callable[[float], float]
) -> tuple[np.ndarray, ...]:
    """Tables for columns of ``bits`` bits in layers of area ``v``, of which the lowest has its tail beyond ``r``.

    The width of a column in each layer, the number of columns that lie under the density for certain, and the density
    at both sides.
    """
    x = [v / density(r), r]
    while len(x) < 256:
        x.append(inverse(v / x[-1] + density(x[-1])))
    x.append(0.0)
    inside = [math.floor(x[i + 1] / x[i] * 2**bits) for i in range(256)]
    return np.array(x[:256]) * 2.0**-bits, np.array(inside, np.int64), np.array([density(each) for each in x])


_NORMAL_R, _EXPONENTIAL_R = 3.6541528853610087963519472518, 7.69711747013104972
_NW, _NK, _NY = _ziggurat(
    _NORMAL_R, 0.00492867323399141, 52, lambda x: math.exp(-0.5 * x * x), lambda y: math.sqrt(-2.0 * math.log(y))
)
_EW, _EK, _EY = _ziggurat(_EXPONENTIAL_R, 0.0039496598225815571993, 53, lambda x: math.exp(-x), lambda y: -math.log(y))
_NW, _NK = np.concatenate([_NW, -_NW]), np.concatenate([_NK, _NK])  # by layer and sign: signs are hard to predict


@inner
def _unit(word: np.uint64) -> float:
    """A number of [0, 1)."""
    return np.float64(np.int64(word >> _ELEVEN)) * _UNIT


@inner
def _normal_again(word: np.uint64, cell: np.uint64, stream: np.uint64, k0: np.uint64, k1: np.uint64) -> float:
    """A standard normal number of a cell whose first word is not accepted at once."""
    attempt = _ZERO
    while True:
        layer, column = word & _LAYER, np.int64(word >> _TWELVE)
        sign = -1.0 if word & _SIGN else 1.0
        x = np.float64(column) * _NW[layer]
        if column < _NK[layer]:
            return sign * x
        first, second, third = again(cell, attempt, stream, k0, k1)
        attempt += _ONE
        if layer == _ZERO:
            while True:  # the tail, after G. Marsaglia (1964)
                far = -math.log1p(-_unit(first)) / _NORMAL_R
                near = -math.log1p(-_unit(second))
                if near + near > far * far:
                    return sign * (_NORMAL_R + far)
                first, second, _ = again(cell, attempt, stream, k0, k1)
                attempt += _ONE
        if _NY[layer] + _unit(first) * (_NY[layer + _ONE] - _NY[layer]) < math.exp(-0.5 * x * x):
            return sign * x
        word = third


@inner
def _exponential_again(word: np.uint64, cell: np.uint64, stream: np.uint64, k0: np.uint64, k1: np.uint64) -> float:
    """A standard exponential number of a cell whose first word is not accepted at once."""
    attempt = _ZERO
    while True:
        layer, column = word & _LAYER, np.int64(word >> _ELEVEN)
        x = np.float64(column) * _EW[layer]
        if column < _EK[layer]:
            return x
        first, second, _ = again(cell, attempt, stream, k0, k1)
        attempt += _ONE
        if layer == _ZERO:
            return _EXPONENTIAL_R - math.log1p(-_unit(first))  # the tail has the shape of the whole
        if _EY[layer] + _unit(first) * (_EY[layer + _ONE] - _EY[layer]) < math.exp(-x):
            return x
        word = second


@inner
def _fill(
    out: np.ndarray,
    firsts: np.ndarray,
    stream: np.uint64,
    k0: np.uint64,
    k1: np.uint64,
    kind: int,
    bits: int,
    offset: float,
    scale: float,
) -> None:
    buffer = np.empty(CHUNK + 8, np.uint64)
    shift, short_shift, unit = np.uint64(64 - bits), np.uint64(max(32 - bits, 0)), 2.0**-bits
    for row in range(out.shape[0]):
        for start in range(0, out.shape[1], CHUNK):
            first, n = firsts[row] + np.uint64(start), min(CHUNK, out.shape[1] - start)
            line = out[row, start:]
            if kind == UNIFORM and bits <= 32:
                odd = first & _ONE
                words = cell_words(buffer, first // _TWO, n // 2 + 1, stream, k0, k1)
                for i in range(n):
                    half = half_word(words, np.uint64(i) + odd)
                    line[i] = offset + scale * (np.float64(np.int64(half >> short_shift)) * unit)
                continue
            words = cell_words(buffer, first, n, stream, k0, k1)
            if kind == UNIFORM:
                for i in range(n):
                    line[i] = offset + scale * (np.float64(np.int64(words[i] >> shift)) * unit)
            elif kind == NORMAL:
                for i in range(n):
                    word = words[i]
                    layer, column = word & _SIGNED_LAYER, np.int64(word >> _TWELVE)
                    x = np.float64(column) * _NW[layer]
                    if column >= _NK[layer]:
                        x = _normal_again(word, first + np.uint64(i), stream, k0, k1)
                    line[i] = offset + scale * x
            else:
                for i in range(n):
                    word = words[i]
                    layer, column = word & _LAYER, np.int64(word >> _ELEVEN)
                    x = np.float64(column) * _EW[layer]
                    if column >= _EK[layer]:
                        x = _exponential_again(word, first + np.uint64(i), stream, k0, k1)
                    line[i] = offset + scale * x


# ``firsts``: the global index of each row's first cell; then the stream, the key, the kind of numbers, the bits of
# uniform ones, and offset and scale.
_REST = "uint64[::1], uint64, uint64, uint64, int64, int64, float64, float64"


@kernel(f"void(float64[:, ::1], {_REST})")
def fill_float64(
    out: np.ndarray,
    firsts: np.ndarray,
    stream: np.uint64,
    k0: np.uint64,
    k1: np.uint64,
    kind: int,
    bits: int,
    offset: float,
    scale: float,
) -> None:
    """``offset + scale * x`` of random numbers x, one per cell."""
    _fill(out, firsts, stream, k0, k1, kind, bits, offset, scale)


@kernel(f"void(float32[:, ::1], {_REST})")
def fill_float32(
    out: np.ndarray,
    firsts: np.ndarray,
    stream: np.uint64,
    k0: np.uint64,
    k1: np.uint64,
    kind: int,
    bits: int,
    offset: float,
    scale: float,
) -> None:
    """The same, computed in doubles and rounded at the end."""
    _fill(out, firsts, stream, k0, k1, kind, bits, offset, scale)
