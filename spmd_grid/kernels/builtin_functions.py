"""Machine code as functions of Python: a call of one takes some 10 ns, of a function by ctypes or numba some 200.

All that is used here is in CPython's stable interface.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

__all__ = ["bound_builtins", "builtin"]

_FASTCALL, _KEYWORDS = 0x0080, 0x0002


class _MethodDef(ctypes.Structure):
    """The C struct ``PyMethodDef``."""

    _fields_ = [("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


_new = ctypes.pythonapi.PyCFunction_NewEx
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)


def bound_builtins(name: str, text: str, address: int) -> Callable[[int, object], Callable[..., Any]]:
    """A maker of builtin functions that run the code at ``address``, which must stay there.

    Local.  The code is ``code(bound, arguments, number, names)`` with a new reference as its result.  The maker takes
    the word that the code finds in what it is bound to, and an object that the builtin function keeps alive.
    """
    method = _MethodDef(name.encode(), address, _FASTCALL | _KEYWORDS, text.encode())

    def make(word: int, keeps: object) -> Callable[..., Any]:
        function: Callable[..., Any] = _new(ctypes.addressof(method), (word, keeps, method), None)
        return function

    return make


def builtin(name: str, address: int) -> Callable[..., Any]:
    """A builtin function that runs the code at ``address``, which looks at nothing but its arguments.  Local."""
    return bound_builtins(name, f"{name}(*integers, /)\n--\n\nA compiled kernel.", address)(0, None)
