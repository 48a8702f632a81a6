"""numba's support for `HaloExchange`: compiled code can take one as an argument and call its ``update``.

In compiled code the object is the address of its state.  ``update`` checks the arrays it is given, writes their
addresses into the state's own call, and runs the compiled course by its address: a program that uses it compiles no
exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba  # noqa: F401 - imported first: see kernels/compiled.py
from numba import objmode, types
from numba.core.errors import TypingError
from numba.extending import overload, overload_method, typeof_impl
from numba.np.numpy_support import as_dtype

from spmd_grid.halo.loop_entry import raise_in_loop
from spmd_grid.kernels.address import call, claim, load, store, store_release, this_thread
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.numba_types import AddressType, known_to_numba, state_of
from spmd_grid.kernels.protocol import slots as at

__all__ = ["type_of"]


@known_to_numba
class HaloType(AddressType):
    """The numba type of all plans; the address is 0 when a plan has been closed."""


_halo_type = HaloType("HaloExchange", "_state", __file__)


def type_of(kind: type) -> types.Type:
    """The numba type of plans of class ``kind``, which numba knows from then on.  Local."""
    typeof_impl.register(kind, lambda plan, context: _halo_type)
    return _halo_type


def _lend(state: int, own_call: int, f: int, field: Any) -> int:
    """Writes the address of ``field`` into the call; 0, or the reason why the field is invalid."""
    raise NotImplementedError  # compiled code runs the overload


@overload(_lend)
def _lend_array(state: int, own_call: int, f: int, field: Any) -> Callable:
    if not isinstance(field, types.Array):
        raise TypingError(f"HaloExchange.update takes local arrays in compiled code, such as u.local; not {field}")
    dtype, ndim, writeable = at.dtype_word(as_dtype(field.dtype)), field.ndim, field.mutable

    def lend(state: int, own_call: int, f: int, field: Any) -> int:
        word = at.CALL_FIELDS + f * at.FIELD_WORDS
        if load(own_call, word + at.F_DTYPE) != dtype:
            return at.WRONG_DTYPE
        if load(state, at.NDIM) != ndim:
            return at.WRONG_SHAPE
        contiguous, size = True, field.itemsize
        for d in range(ndim - 1, -1, -1):
            if field.shape[d] != load(state, at.EXTENTS + d):
                return at.WRONG_SHAPE
            if field.strides[d] != size and field.shape[d] > 1:
                contiguous = False
            size *= field.shape[d]
        if not contiguous and size:
            return at.NOT_CONTIGUOUS
        if not writeable:
            return at.READ_ONLY
        address = field.ctypes.data
        offset = address - load(state, at.SEGMENT)
        if offset < 0 or offset + size > load(state, at.SEGMENT_BYTES):
            offset = -1
        store(own_call, word + at.F_ADDRESS, address)
        store(own_call, word + at.F_INTO, address)
        store(own_call, word + at.F_OFFSET, offset)
        return 0

    return lend


@inner
def _refuse(state: int, f: int, reason: int) -> int:
    """Makes the next exchange one that this process refuses; FINE unless the callback raised."""
    store(load(state, at.WENT_ON), 0, 0)
    call(load(state, at.REFUSE), f, reason, 0)
    return at.FINE if load(load(state, at.WENT_ON), 0) == 1 else at.ENDED


def _lend_all(state: int, own_call: int, f: int, fields: Any) -> int:
    """Writes the addresses of all fields from the f-th, or refuses the first invalid one; FINE unless that raised."""
    raise NotImplementedError  # compiled code runs the overload


@overload(_lend_all)
def _lend_tuple(state: int, own_call: int, f: int, fields: Any) -> Callable:
    if len(fields) == 0:

        def done(state: int, own_call: int, f: int, fields: Any) -> int:
            return at.FINE

        return done

    def lend(state: int, own_call: int, f: int, fields: Any) -> int:
        reason = _lend(state, own_call, f, fields[0])
        if reason:
            return _refuse(state, f, reason)
        return _lend_all(state, own_call, f + 1, fields[1:])

    return lend


@overload_method(HaloType, "update")
def _update(halo: Any, *fields: Any) -> Callable:
    n = len(fields[0] if len(fields) == 1 and isinstance(fields[0], types.BaseTuple) else fields)

    def update(halo: Any, *fields: Any) -> None:
        state = state_of(halo)
        for _ in range(2):  # a second time where the plan has been handed over to this thread
            code = at.ENDED
            if state:
                own_call, code = load(state, at.LOOP_CALL), at.FINE
                if claim(state + 8 * at.IN_USE):
                    code = at.TAKEN
                else:
                    if load(state, at.THREAD) != this_thread():
                        if load(state, at.THREAD):
                            code = at.TAKEN
                        else:
                            store(state, at.THREAD, this_thread())
                    if code == at.FINE and load(state, at.PHASE) == at.IDLE:
                        if not load(state, at.LOOPS_WELCOME):
                            code = _refuse(state, 0, at.HAS_FUNCTIONS)
                        elif load(state, at.N_FIELDS) != n:
                            code = _refuse(state, n, at.WRONG_COUNT)
                        else:
                            code = _lend_all(state, own_call, 0, fields)
                    if code == at.FINE:
                        code = call(load(state, at.LOOP_COURSE), at.UPDATE, state, own_call)
                    store_release(state + 8 * at.IN_USE, 0)
            if not code:
                break
            with objmode():
                raise_in_loop(state, code)

    return update
