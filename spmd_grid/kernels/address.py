"""Raw memory from compiled code: loads, stores, words that other processes poll, and calls of functions by address.

A word that one process writes and another polls is stored with *release* and loaded with *acquire* semantics: what was
written before the store is seen after the load.  On x86 both are plain moves; the compiler may not reorder them.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import numba  # imported first: see compiled.py
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spmd_grid.kernels.compiled import Intrinsic, inner
from spmd_grid.kernels.protocol.slots import FUTEX

__all__ = [
    "add",
    "call",
    "claim",
    "complete_messages",
    "copy_at",
    "fence",
    "fold_at",
    "give_way",
    "load",
    "load_acquire",
    "load_int",
    "pause",
    "pointer",
    "post_message",
    "probe_message",
    "same_words",
    "sleep_on",
    "start_messages",
    "store",
    "store_release",
    "this_thread",
    "wake_all",
]

_I32, _I64, _VOID = ir.IntType(32), ir.IntType(64), ir.VoidType()

# The processor's hint that a loop polls: it saves power and lets the other thread of the core run.
_HINTS = {"x86_64": ("llvm.x86.sse2.pause", ()), "aarch64": ("llvm.aarch64.hint", (1,))}
_HINTS["AMD64"], _HINTS["arm64"] = _HINTS["x86_64"], _HINTS["aarch64"]

give_way = types.ExternalFunction("sched_yield", types.int32())
this_thread = types.ExternalFunction("pthread_self", types.int64())  # equal to threading.get_ident()

# futex(address, operation, value, timeout): see ``slots.FUTEX``.
_FUTEX = FUTEX
_WAIT, _WAKE, _ALL, _LOW_HALF = 0, 1, (1 << 31) - 1, (1 << 32) - 1
_ask_system = types.ExternalFunction("syscall", types.int64(*[types.int64] * 5))


@inner
def sleep_on(address: int, seen: int, longest: int) -> None:
    """Sleep until another process wakes those that sleep on the word at ``address``, unless it is no longer ``seen``.

    ``longest``: address of the most seconds and nanoseconds.  Only the word's lower half is compared.
    """
    _ask_system(_FUTEX, address, _WAIT, seen & _LOW_HALF, longest)


@inner
def wake_all(address: int) -> None:
    """Wake all processes that sleep on a word."""
    _ask_system(_FUTEX, address, _WAKE, _ALL, 0)


@intrinsic(prefer_literal=True)
def pointer(typingctx: Any, address: types.Type, dtype: types.Type) -> Intrinsic:
    """The address as a pointer to elements of ``dtype``, one of numpy's type strings as a literal."""
    element = types.CPointer(numba.from_dtype(np.dtype(dtype.literal_value)))

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.inttoptr(args[0], context.get_value_type(element))

    return element(types.int64, dtype), emit


def _word(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    """A pointer to word ``args[1]`` counted from address ``args[0]``."""
    return builder.gep(builder.inttoptr(args[0], _I64.as_pointer()), [args[1]])


@intrinsic
def load(typingctx: Any, address: types.Type, slot: types.Type) -> Intrinsic:
    """The int64 at ``address + 8 * slot``."""
    return types.int64(types.int64, types.int64), lambda context, builder, _, args: builder.load(_word(builder, args))


@inner
def same_words(one: int, other: int, number: int) -> bool:
    """Whether the words at two addresses are the same."""
    for i in range(number):
        if load(one, i) != load(other, i):
            return False
    return True


@intrinsic
def load_int(typingctx: Any, address: types.Type) -> Intrinsic:
    """The int32 at ``address``."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.sext(builder.load(builder.inttoptr(args[0], _I32.as_pointer())), _I64)

    return types.int64(types.int64), emit


@intrinsic
def store(typingctx: Any, address: types.Type, slot: types.Type, value: types.Type) -> Intrinsic:
    """Write an int64 to ``address + 8 * slot``."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        builder.store(args[2], _word(builder, args))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit


@intrinsic
def load_acquire(typingctx: Any, address: types.Type) -> Intrinsic:
    """The word at ``address``; later loads see all that its writer had written before."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.load_atomic(builder.inttoptr(args[0], _I64.as_pointer()), "acquire", 8)

    return types.int64(types.int64), emit


@intrinsic
def store_release(typingctx: Any, address: types.Type, value: types.Type) -> Intrinsic:
    """Write the word at ``address``; a process that loads it with ``load_acquire`` sees all earlier writes."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        builder.store_atomic(args[1], builder.inttoptr(args[0], _I64.as_pointer()), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), emit


@intrinsic
def claim(typingctx: Any, address: types.Type) -> Intrinsic:
    """Set the word at ``address`` to 1 and return its old value.  If several threads do so at once, one gets 0."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        word = builder.inttoptr(args[0], _I64.as_pointer())
        return builder.atomic_rmw("xchg", word, ir.Constant(_I64, 1), "acquire")

    return types.int64(types.int64), emit


@intrinsic
def add(typingctx: Any, address: types.Type, value: types.Type) -> Intrinsic:
    """Add to the word at ``address``, to which several processes may add at once; its old value."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        return builder.atomic_rmw("add", builder.inttoptr(args[0], _I64.as_pointer()), args[1], "seq_cst")

    return types.int64(types.int64, types.int64), emit


@intrinsic
def fence(typingctx: Any) -> Intrinsic:
    """Let all stores before it be seen before anything after it is loaded."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), emit


@intrinsic
def pause(typingctx: Any) -> Intrinsic:
    """Tell the processor that this is a loop that polls; no instruction if it has no such hint."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        name, values = _HINTS.get(platform.machine(), (None, ()))
        if name is not None:
            hint = builder.module.declare_intrinsic(name, (), ir.FunctionType(_VOID, [_I32] * len(values)))
            builder.call(hint, [ir.Constant(_I32, value) for value in values])
        return context.get_dummy_value()

    return types.void(), emit


def _caller(result: ir.Type, *parameters: ir.Type) -> Callable[..., ir.Value]:
    """An emitter that calls the function at ``args[0]``; all arguments are int64, truncated to the parameters."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        function = builder.inttoptr(args[0], ir.FunctionType(result, parameters).as_pointer())
        cut = [
            builder.trunc(arg, kind) if kind is _I32 else arg for arg, kind in zip(args[1:], parameters, strict=True)
        ]
        value = builder.call(function, cut)
        return builder.sext(value, _I64) if result is _I32 else value

    return emit


@intrinsic
def call(typingctx: Any, function: types.Type, a: types.Type, b: types.Type, c: types.Type) -> Intrinsic:
    """``int64 function(int64, int64, int64)``."""
    return types.int64(*[types.int64] * 4), _caller(_I64, _I64, _I64, _I64)


@intrinsic
def copy_at(
    typingctx: Any,
    function: types.Type,
    table: types.Type,
    columns: types.Type,
    first: types.Type,
    last: types.Type,
    source: types.Type,
    target: types.Type,
    streams: types.Type,
) -> Intrinsic:
    """``int64 function(int64, ...)``: see ``copy_rows`` in ``copy/boxes.py``."""
    return types.int64(*[types.int64] * 8), _caller(_I64, *[_I64] * 7)


@intrinsic
def fold_at(
    typingctx: Any,
    function: types.Type,
    rows: types.Type,
    count: types.Type,
    size: types.Type,
    out: types.Type,
    buffer: types.Type,
) -> Intrinsic:
    """``int64 function(int64, ...)``: the folds of ``reduce/rows.py``."""
    return types.int64(*[types.int64] * 6), _caller(_I64, *[_I64] * 5)


@intrinsic
def start_messages(typingctx: Any, function: types.Type, count: types.Type, requests: types.Type) -> Intrinsic:
    """``int MPI_Startall(int, MPI_Request *)``."""
    return types.int64(*[types.int64] * 3), _caller(_I32, _I32, _I64)


@intrinsic
def complete_messages(
    typingctx: Any,
    function: types.Type,
    count: types.Type,
    requests: types.Type,
    flag: types.Type,
    statuses: types.Type,
) -> Intrinsic:
    """``int MPI_Testall(int, MPI_Request *, int *, MPI_Status *)``."""
    return types.int64(*[types.int64] * 5), _caller(_I32, _I32, _I64, _I64, _I64)


@intrinsic
def post_message(
    typingctx: Any,
    function: types.Type,
    buffer: types.Type,
    n_bytes: types.Type,
    datatype: types.Type,
    peer: types.Type,
    tag: types.Type,
    comm: types.Type,
    request: types.Type,
) -> Intrinsic:
    """``int MPI_Isend(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *)``, and MPI_Irecv.

    Handles of MPI are integers or addresses: either fits into a word, of which the function reads its part.
    """
    return types.int64(*[types.int64] * 8), _caller(_I32, _I64, _I32, _I64, _I32, _I32, _I64, _I64)


@intrinsic
def probe_message(
    typingctx: Any,
    function: types.Type,
    peer: types.Type,
    tag: types.Type,
    comm: types.Type,
    flag: types.Type,
    status: types.Type,
) -> Intrinsic:
    """``int MPI_Iprobe(int, int, MPI_Comm, int *, MPI_Status *)``."""
    return types.int64(*[types.int64] * 6), _caller(_I32, _I32, _I32, _I64, _I64, _I64)
