"""Python's objects from compiled code that has the interpreter's lock, and compiled code for `builtin_functions`.

All that is used here is in CPython's stable interface.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from spmd_grid.kernels.compiled import Compiled, Intrinsic, by_address, inner

__all__ = [
    "append",
    "call_python",
    "clear_error",
    "clear_list",
    "item_of",
    "items_in",
    "length_of",
    "list_item_of",
    "lock_python",
    "new_integer",
    "new_reference",
    "release",
    "on_integers",
    "unlock_python",
    "word_in",
]

_object = types.int64  # an address

# vectorcall(function, arguments, number, names): see PEP 590.  A new reference; 0 if it raised.
call_python = types.ExternalFunction("PyObject_Vectorcall", _object(_object, types.int64, types.int64, _object))
item_of = types.ExternalFunction("PyTuple_GetItem", _object(_object, types.int64))
length_of = types.ExternalFunction("PyTuple_Size", types.int64(_object))
list_item_of = types.ExternalFunction("PyList_GetItem", _object(_object, types.int64))
items_in = types.ExternalFunction("PyList_Size", types.int64(_object))
append = types.ExternalFunction("PyList_Append", types.int32(_object, _object))
_set_slice = types.ExternalFunction("PyList_SetSlice", types.int32(_object, types.int64, types.int64, _object))
new_integer = types.ExternalFunction("PyLong_FromLongLong", _object(types.int64))
new_reference = types.ExternalFunction("Py_IncRef", types.void(_object))
release = types.ExternalFunction("Py_DecRef", types.void(_object))
clear_error = types.ExternalFunction("PyErr_Clear", types.void())
_complain = types.ExternalFunction("PyErr_BadArgument", types.int32())
_has_error = types.ExternalFunction("PyErr_Occurred", _object())
unlock_python = types.ExternalFunction("PyEval_SaveThread", _object())
lock_python = types.ExternalFunction("PyEval_RestoreThread", types.void(_object))
_as_word = types.ExternalFunction("PyLong_AsLongLong", types.int64(_object))


@inner
def word_in(bound: int) -> int:
    """The word that a builtin function was made for: the first item of what it is bound to."""
    return _as_word(item_of(bound, 0))


@inner
def clear_list(items: int) -> None:
    """Remove all items of a list."""
    _set_slice(items, 0, items_in(items), 0)


@intrinsic(prefer_literal=True)
def _integers(typingctx: Any, arguments: types.Type, number: types.Type) -> Intrinsic:
    """The first ``number`` (a literal) of the arguments at an address, as a tuple of words; -1 where one raises."""
    words, i64, n = types.UniTuple(types.int64, number.literal_value), ir.IntType(64), number.literal_value

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        take = builder.module.globals.get("PyLong_AsLongLong") or ir.Function(
            builder.module, ir.FunctionType(i64, [i64]), "PyLong_AsLongLong"
        )
        first = builder.inttoptr(args[0], i64.as_pointer())
        found = [builder.call(take, [builder.load(builder.gep(first, [i64(i)]))]) for i in range(n)]
        return context.make_tuple(builder, words, found)

    return words(types.int64, number), emit


def on_integers(function: Callable[..., Any]) -> Compiled:
    """Compiles a function of integers with an integer as its result for `builtin`; it runs without the lock.  Local."""
    n, run = function.__code__.co_argcount, inner(function)

    def entry(bound: int, arguments: int, number: int, names: int) -> int:
        if number != n or names:
            _complain()
            return 0
        words = _integers(arguments, n)
        if _has_error():
            return 0
        thread = unlock_python()
        result = run(*words)
        lock_python(thread)
        return new_integer(result)

    entry.__module__, entry.__name__ = function.__module__, function.__name__
    compiled = by_address("int64(int64, int64, int64, int64)")(entry)
    compiled.function = function
    return compiled
