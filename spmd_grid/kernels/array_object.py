"""numpy's array objects, read in memory: the one module that relies on the layout of ``PyArrayObject``.

A numpy array object begins with CPython's object header, which the struct ``PyArrayObject_fields`` of numpy's stable
ABI follows: data, number of dimensions (32 bits), shape, strides, base, dtype, flags (32 bits), one word each.  To read
the address there takes 0.1 us; ``x.ctypes.data`` takes 0.8.  Both ways in are checked when this module is imported, on
arrays whose fields are known; where they are not as expected, ``address_of`` asks numpy, and ``FIELDS_OFFSET`` is 0.
"""

from __future__ import annotations

import ctypes

import numpy as np

__all__ = ["FIELDS_OFFSET", "DATA", "DTYPE", "FLAGS", "NDIM", "PLAIN", "SHAPE", "STRIDES", "WRITEABLE", "address_of"]

# Words of the struct, the flag of arrays that may be written to (numpy's NPY_ARRAY_WRITEABLE), and the flags of arrays
# that are C-contiguous and aligned.
DATA, NDIM, SHAPE, STRIDES, DTYPE, FLAGS = 0, 1, 2, 3, 5, 6
WRITEABLE = 0x0400
PLAIN = 0x0001 | 0x0100

_HEADER = object.__basicsize__
_word_at = ctypes.c_size_t.from_address
_probe = np.zeros((2, 2))[1:, 1:]
_probe.flags.writeable = False

if _word_at(id(_probe) + _HEADER).value == _probe.ctypes.data:

    def address_of(x: np.ndarray) -> int:
        """The address of ``x``'s first element.  Local."""
        return _word_at(id(x) + _HEADER).value

else:

    def address_of(x: np.ndarray) -> int:
        """The address of ``x``'s first element.  Local."""
        return x.ctypes.data


def _fields_offset() -> int:
    """The offset of the struct in an array object; 0 if a known array does not have the expected fields there."""
    probe = np.zeros((2, 3), ">f4")[:, 1:]
    probe.flags.writeable = False
    words = (ctypes.c_int64 * 7).from_address(id(probe) + _HEADER)[:]
    known = words[NDIM] & 0xFFFFFFFF == 2
    if known:
        sides = [(ctypes.c_int64 * 2).from_address(words[field])[:] for field in (SHAPE, STRIDES)]
        known = (
            words[DATA] == probe.ctypes.data
            and sides == [[2, 2], [12, 4]]
            and words[DTYPE] == id(probe.dtype)
            and words[FLAGS] & (WRITEABLE | PLAIN) == PLAIN & ~1
            and ctypes.c_int.from_address(id(np.zeros(1)) + _HEADER + 8 * FLAGS).value & PLAIN == PLAIN
            and bool(ctypes.c_int.from_address(id(np.zeros(1)) + _HEADER + 8 * FLAGS).value & WRITEABLE)
        )
    return _HEADER if known else 0


# Where the struct begins in an array object, for compiled code that reads it; 0: it must not.
FIELDS_OFFSET = _fields_offset()
