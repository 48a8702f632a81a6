"""The compiled check that arrays are those a call was made for; like array_object.py it reads numpy's array objects."""

from __future__ import annotations

import numba  # noqa: F401 - imported first: see compiled.py

from spmd_grid.kernels.address import load
from spmd_grid.kernels.array_object import DATA, DTYPE, FLAGS, NDIM, SHAPE, STRIDES, WRITEABLE
from spmd_grid.kernels.compiled import inner
from spmd_grid.kernels.protocol import slots as at

__all__ = ["field_of", "is_unchanged"]


@inner
def field_of(call_: int, f: int, what: int) -> int:
    """Word ``what`` (``F_*``) of field ``f`` of a call."""
    return load(call_, at.CALL_FIELDS + f * at.FIELD_WORDS + what)


@inner
def is_unchanged(state: int, call_: int) -> bool:
    """Whether the arrays are what they were when the call was made, and may be written."""
    for f in range(load(state, at.N_FIELDS)):
        array = field_of(call_, f, at.F_OBJECT)
        if array:
            fields = array + load(state, at.ARRAY_FIELDS)
            if load(fields, DATA) != field_of(call_, f, at.F_ADDRESS):
                return False
            if load(fields, DTYPE) != field_of(call_, f, at.F_DTYPE) or not load(fields, FLAGS) & WRITEABLE:
                return False
            ndim, known = load(state, at.NDIM), field_of(call_, f, at.F_SHAPE)
            if load(fields, NDIM) & 0xFFFFFFFF != ndim:
                return False
            shape, strides = load(fields, SHAPE), load(fields, STRIDES)
            for d in range(ndim):
                if load(shape, d) != load(known, d) or load(strides, d) != load(known, ndim + d):
                    return False
    return True
