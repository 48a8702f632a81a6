"""Compiled random words by counter: the word of a cell depends on the key, the stream and its global index alone.

Philox4x64-10 of J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (2011), as
numpy's ``Philox`` has it.  The counter of a block of four words is ``(block, attempt, stream, purpose)``:

    (b, 0, stream, 0)              block b, from 1 on, of the words of the cells, four or eight cells to a block
    (i + 1, attempt, stream, 1)    further words of cell i, where a number is rejected: three to an attempt
    (b, 0, stream, 2)              keys of a permutation

So a cell that rejects draws as many words as it likes, and no other cell's numbers move.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spmd_grid.kernels.compiled import inner, kernel

__all__ = ["CHUNK", "again", "cell_words", "fill_keys", "half_word", "high_product"]

CHUNK = 1024  # words that stay in the fastest cache while they become numbers

_ROUNDS = 10
_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_ZERO, _ONE, _TWO, _FOUR = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(4)
_HALF, _LOWER = np.uint64(32), np.uint64(0xFFFFFFFF)
_I64 = ir.IntType(64)


@intrinsic
def high_product(typingctx: Any, a: Any, b: Any) -> tuple[Any, Callable[..., Any]]:
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
        c0, c1, c2, c3 = high_product(_M1, c2) ^ c1 ^ k0, _M1 * c2, high_product(_M0, c0) ^ c3 ^ k1, _M0 * c0
        k0 += _W0
        k1 += _W1
    return c0, c1, c2, c3


@inner
def cell_words(
    words: np.ndarray, first: np.uint64, n: int, stream: np.uint64, k0: np.uint64, k1: np.uint64
) -> np.ndarray:
    """The words numbered ``first`` to ``first + n``, a part of ``words``, which has room for whole blocks of them."""
    skipped = np.int64(first % _FOUR)
    block = first // _FOUR + _ONE
    for at in range(0, skipped + n, 4):
        words[at], words[at + 1], words[at + 2], words[at + 3] = _block(block, _ZERO, stream, _ZERO, k0, k1)
        block += _ONE
    return words[skipped:]


@inner
def half_word(words: np.ndarray, number: np.uint64) -> np.uint64:
    """The half word of that number, the lower half of a word before its upper one."""
    return (words[number // _TWO] >> ((number & _ONE) * _HALF)) & _LOWER


@inner
def again(
    cell: np.uint64, attempt: np.uint64, stream: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Three words of a later attempt of one cell."""
    a, b, c, _ = _block(cell + _ONE, attempt, stream, _ONE, k0, k1)
    return a, b, c


@kernel("void(uint64[::1], uint64, uint64, uint64)")
def fill_keys(keys: np.ndarray, stream: np.uint64, k0: np.uint64, k1: np.uint64) -> None:
    """Words for the rounds of a permutation; their number is a multiple of 4."""
    for at in range(0, len(keys), 4):
        block = np.uint64(at) // _FOUR + _ONE
        keys[at], keys[at + 1], keys[at + 2], keys[at + 3] = _block(block, _ZERO, stream, _TWO, k0, k1)
