"""numba's support for plans of operations: compiled code can take one as an argument and call its ``run``.

In compiled code the object is the address of its state.  ``run`` looks whether the arrays are those that its compiled
run is for, and runs that by its address: a program that uses it compiles no operation.  Everything else is Python's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba  # noqa: F401 - imported first: see kernels/compiled.py
from numba import objmode, types
from numba.core.errors import TypingError
from numba.extending import overload, overload_method
from numba.np.numpy_support import as_dtype

from spmd_grid.kernels.address import call, load
from spmd_grid.kernels.numba_types import AddressType, known_to_numba, state_of
from spmd_grid.kernels.protocol import slots as at
from spmd_grid.ops.loops.entry import run_in_loop

__all__ = ["plan_type"]


@known_to_numba
class PlanType(AddressType):
    """The numba type of all plans of operations."""


plan_type = PlanType("plan", "_loop_state", __file__)


def _address(array: Any) -> int:
    """The address of an array; 0 for None."""
    raise NotImplementedError  # compiled code runs the overload


@overload(_address)
def _address_of(array: Any) -> Callable:
    def address(array: Any) -> int:
        return array.ctypes.data

    def nothing(array: Any) -> int:
        return 0

    return address if isinstance(array, types.Array) else nothing


def _end(array: Any) -> int:
    """The address behind a contiguous array; 0 for None."""
    raise NotImplementedError  # compiled code runs the overload


@overload(_end)
def _end_of(array: Any) -> Callable:
    def end(array: Any) -> int:
        return array.ctypes.data + array.size * array.itemsize

    def nothing(array: Any) -> int:
        return 0

    return end if isinstance(array, types.Array) else nothing


def _fits(known: int, array: Any) -> bool:
    """Whether an array is contiguous and as the words at ``known`` say."""
    raise NotImplementedError  # compiled code runs the overload


@overload(_fits)
def _array_fits(known: int, array: Any) -> Callable:
    def is_ignored(known: int, array: Any) -> bool:
        return load(known, at.A_DTYPE) == 0

    if not isinstance(array, types.Array):
        return is_ignored
    dtype, ndim, written = at.dtype_word(as_dtype(array.dtype)), array.ndim, array.mutable

    def scalar_fits(known: int, array: Any) -> bool:
        if load(known, at.A_DTYPE) != dtype or load(known, at.A_NDIM) != ndim:
            return load(known, at.A_DTYPE) == 0
        return written or not load(known, at.A_WRITTEN)

    def fits(known: int, array: Any) -> bool:
        if load(known, at.A_DTYPE) != dtype or load(known, at.A_NDIM) != ndim:
            return load(known, at.A_DTYPE) == 0
        size = array.itemsize
        for d in range(ndim - 1, -1, -1):
            n = array.shape[d]
            if n != load(known, at.A_EXTENTS + d) or (array.strides[d] != size and n > 1):
                return False
            size *= n
        return written or not load(known, at.A_WRITTEN)

    return fits if ndim else scalar_fits


@overload_method(PlanType, "run")
def _run(plan: Any, x: Any, out: Any) -> Callable:
    if not isinstance(x, types.Array | types.NoneType):
        raise TypingError(f"plan.run takes local arrays in compiled code; x is {x}, and must be an array or None")
    if not isinstance(out, types.Array):
        raise TypingError(f"plan.run takes the array for the result in compiled code; out is {out}")

    def run(plan: Any, x: Any, out: Any) -> None:
        state, code = state_of(plan), at.BY_PYTHON
        if load(state, at.RUN_READY) and _fits(state + 8 * at.RUN_X, x) and _fits(state + 8 * at.RUN_OUT, out):
            if _end(x) <= _address(out) or _end(out) <= _address(x):
                code = call(load(state, at.RUN_COURSE), state, _address(x), _address(out))
        if code:
            with objmode():
                run_in_loop(state, code, x, out)

    return run
