"""Python's objects from compiled code that has the interpreter's lock, and compiled code as a function of Python's.

A compiled function with the address of a `PyMethodDef` is a builtin function: a call of it from Python takes some 10 ns,
that of a function by numba's dispatcher or by ctypes some 200.  All that is used here is in CPython's stable interface.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numba  # noqa: F401 - imported first: see compiled.py
from numba import types

from spmd_grid.kernels.compiled import by_address, inner

__all__ = [
    "append",
    "as_builtin",
    "call_python",
    "clear_error",
    "clear_list",
    "item_of",
    "items_in",
    "length_of",
    "new_integer",
    "new_reference",
    "release",
    "word_in",
]

_object = types.int64  # an address

# vectorcall(function, arguments, number, names): see PEP 590.  A new reference; 0 if it raised.
call_python = types.ExternalFunction("PyObject_Vectorcall", _object(_object, types.int64, types.int64, _object))
item_of = types.ExternalFunction("PyTuple_GetItem", _object(_object, types.int64))
length_of = types.ExternalFunction("PyTuple_Size", types.int64(_object))
items_in = types.ExternalFunction("PyList_Size", types.int64(_object))
append = types.ExternalFunction("PyList_Append", types.int32(_object, _object))
_set_slice = types.ExternalFunction("PyList_SetSlice", types.int32(_object, types.int64, types.int64, _object))
new_integer = types.ExternalFunction("PyLong_FromLongLong", _object(types.int64))
new_reference = types.ExternalFunction("Py_IncRef", types.void(_object))
release = types.ExternalFunction("Py_DecRef", types.void(_object))
clear_error = types.ExternalFunction("PyErr_Clear", types.void())
_as_word = types.ExternalFunction("PyLong_AsLongLong", types.int64(_object))


@inner
def word_in(bound: int) -> int:
    """The word that a builtin function was made for: the first item of what it is bound to."""
    return _as_word(item_of(bound, 0))


@inner
def clear_list(items: int) -> None:
    """Remove all items of a list."""
    _set_slice(items, 0, items_in(items), 0)


class _MethodDef(ctypes.Structure):
    """The C struct ``PyMethodDef``."""

    _fields_ = [("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


_FASTCALL, _KEYWORDS = 0x0080, 0x0002

_new = ctypes.pythonapi.PyCFunction_NewEx
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)


def as_builtin(name: str, text: str, code: Callable[..., Any]) -> Callable[[int, object], Callable[..., Any]]:
    """A maker of builtin functions that run ``code(bound, arguments, number, names)``, whose result is a new reference.

    The maker takes the word that `word_in` finds, and an object that the builtin function keeps alive.
    """
    compiled = by_address("int64(int64, int64, int64, int64)")(code)
    method = _MethodDef(name.encode(), compiled.address, _FASTCALL | _KEYWORDS, text.encode())

    def make(word: int, keeps: object) -> Callable[..., Any]:
        return _new(ctypes.addressof(method), (word, keeps, method, compiled), None)

    return make
