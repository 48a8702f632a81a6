"""Moves of bytes that numba cannot express: of constant sizes, past the caches, and of tiles transposed in registers.

A *streaming* store writes whole lines of the target without reading them first, and leaves them in no cache: a third
of the traffic to memory is saved, and what the caches hold stays there.  It pays where the target is larger than the
caches, and needs targets that begin on a line.  All moves are written in LLVM's language, which every processor's
compiler understands; a processor without such instructions gets plain stores.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spmd_grid.kernels.compiled import Intrinsic

__all__ = ["LINE", "drain", "lines_moved", "move", "turn"]

LINE = 64  # bytes of a cache line

_I1, _I8, _I32, _I64, _VOID = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.VoidType()


@intrinsic
def move(typingctx: Any, source: types.Type, target: types.Type, size: types.Type) -> Intrinsic:
    """Copy ``size`` bytes between two addresses: by loads and stores if size is a constant, else by memcpy."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        pointer = _I8.as_pointer()
        memcpy = builder.module.declare_intrinsic("llvm.memcpy", [pointer, pointer, args[2].type])
        source, target = (builder.inttoptr(address, pointer) for address in args[:2])
        builder.call(memcpy, [target, source, args[2], _I1(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit


def lines_moved(count: int, streaming: bool) -> Callable[..., None]:
    """Make an intrinsic that copies ``count`` lines to a target that begins on a line, by streaming or plain stores."""

    @intrinsic
    def moved(typingctx: Any, source: types.Type, target: types.Type) -> Intrinsic:
        def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
            line, offsets = ir.VectorType(_I64, LINE // 8), range(0, count * LINE, LINE)
            lines = [_load(builder, builder.add(args[0], _I64(at)), line) for at in offsets]
            for at, value in zip(offsets, lines, strict=True):
                _store(builder, value, builder.add(args[1], _I64(at)), streamed=LINE * streaming)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), emit

    return moved


@intrinsic
def drain(typingctx: Any) -> Intrinsic:
    """Order later stores after all streaming stores so far; no instruction if a release store does so anyway."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        if platform.machine() in ("x86_64", "AMD64"):
            fence = builder.module.declare_intrinsic("llvm.x86.sse.sfence", (), ir.FunctionType(_VOID, ()))
            builder.call(fence, ())
        return context.get_dummy_value()

    return types.void(), emit


def turn(width: int, edge: int) -> Callable[..., None]:
    """Make an intrinsic that transposes a tile of ``edge`` x ``edge`` words of ``width`` bytes; edge: a power of two.

    Word j of the bytes at ``source + i * s`` becomes word i of those at ``target + j * t``.  ``streamed``: by streaming
    stores, to targets that begin at multiples of the tile's edge in bytes.
    """

    @intrinsic
    def turned(
        typingctx: Any, source: types.Type, s: types.Type, target: types.Type, t: types.Type, streamed: types.Type
    ) -> Intrinsic:
        def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
            source, s, target, t, streamed = args
            words = ir.VectorType(ir.IntType(8 * min(width, 8)), edge * max(1, width // 8))
            rows = [_load(builder, builder.add(source, builder.mul(s, _I64(i))), words) for i in range(edge)]
            rows = _transposed(builder, rows, width)
            addresses = [builder.add(target, builder.mul(t, _I64(i))) for i in range(edge)]
            with builder.if_else(streamed) as branches:
                for branch, alignment in zip(branches, (edge * width, 0), strict=True):
                    with branch:
                        for row, address in zip(rows, addresses, strict=True):
                            _store(builder, row, address, alignment)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4, types.boolean), emit

    return turned


def _transposed(builder: ir.IRBuilder, rows: list[ir.Value], width: int) -> list[ir.Value]:
    """Swap off-diagonal blocks, at first half of the tile, at last single words (Eklundh, 1972)."""
    edge, parts = len(rows), max(1, width // 8)  # a word may have two parts
    step = edge // 2
    while step:
        upper = [j if not j & step else edge + j - step for j in range(edge)]
        lower = [j + step if not j & step else edge + j for j in range(edge)]
        masks = [
            ir.Constant(ir.VectorType(_I32, edge * parts), [parts * j + part for j in picks for part in range(parts)])
            for picks in (upper, lower)
        ]
        for i in range(edge):
            if not i & step:
                pair = rows[i], rows[i + step]
                rows[i], rows[i + step] = (builder.shuffle_vector(*pair, mask) for mask in masks)
        step //= 2
    return rows


def _load(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type) -> ir.Value:
    found = builder.load(builder.inttoptr(address, kind.as_pointer()))
    found.align = 1
    return found


def _store(builder: ir.IRBuilder, value: ir.Value, address: ir.Value, streamed: int) -> None:
    """Store ``value``; ``streamed``: the alignment of a streaming store, or 0 for a plain one at any address."""
    done = builder.store(value, builder.inttoptr(address, value.type.as_pointer()))
    done.align = streamed or 1
    if streamed:
        done.set_metadata("nontemporal", builder.module.add_metadata([_I32(1)]))
