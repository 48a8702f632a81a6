"""The compiled sums, differences, products and quotients of small blocks, as functions that Python calls."""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np

from spmd_grid.kernels import machine_code
from spmd_grid.kernels.array_object import FIELDS_OFFSET
from spmd_grid.kernels.builtin_functions import bound_builtins

__all__ = ["arithmetic"]

_HUGE, _TINY = np.finfo(float).max, np.finfo(float).tiny

# Operands that raise the processor's flags, by ufunc: invalid operation, division by zero, overflow, underflow.
_RAISING: dict[np.ufunc, tuple[tuple[float, float] | None, ...]] = {
    np.add: ((np.inf, -np.inf), None, (_HUGE, _HUGE), None),
    np.subtract: ((np.inf, np.inf), None, (_HUGE, -_HUGE), None),
    np.multiply: ((np.inf, 0.0), None, (_HUGE, _HUGE), (_TINY, _TINY)),
    np.true_divide: ((0.0, 0.0), (1.0, 0.0), (_HUGE, _TINY), (_TINY, _HUGE)),
}
_FLAGS = {"x86_64": (1, 4, 8, 16), "AMD64": (1, 4, 8, 16), "aarch64": (1, 2, 4, 8), "arm64": (1, 2, 4, 8)}
_lock = Lock()


@cache
def arithmetic(ufunc: np.ufunc, operands: str) -> Callable[[Any, Any, np.ndarray], object]:
    """``ufunc(a, b, out)`` for small blocks of doubles, in less time; ``ufunc`` itself where there is none.

    Local.  ``operands``: "blocks", "number and block" or "block and number"; numbers are floats.  Types are not
    checked: where blocks are not arrays of native doubles, any memory may be written to.
    """
    flags = _FLAGS.get(platform.machine())
    if ufunc not in _RAISING or not FIELDS_OFFSET or flags is None:
        return ufunc
    name = ufunc.__name__
    path = f"arithmetic.blocks.compute.{name}_{operands.replace(' ', '_')}"
    with _lock:
        address = machine_code.find(path)
        if not address:
            address = import_module("spmd_grid.kernels.arithmetic.blocks").make(name, operands).address

    def report(raised: int) -> None:
        """Let numpy tell of the flags, as `numpy.errstate` says: by a call that raises the same."""
        pairs = [pair for pair, flag in zip(_RAISING[ufunc], flags) if pair and raised & flag]
        if pairs:
            ufunc(*np.array(pairs).T)

    ways = np.array([id(ufunc), id(report), id(None), 0])
    make = bound_builtins(name, f"{name}(a, b, out, /)\n--\n\nAs numpy's", address)
    return make(ways.ctypes.data, (ways, ufunc, report))
