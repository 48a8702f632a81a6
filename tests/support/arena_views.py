"""Arrays of an arena, and the memory at their addresses."""

import ctypes
import mmap
import os
import sys

import numpy as np

KIB = 1 << 10

# Elsewhere memory is not shared, and nothing but speed is lost.
SHARED = sys.platform == "linux" and not {"SPMD_GRID_ARENA", "SPMD_GRID_RANKS_PER_NODE"} & set(os.environ)


def address_of(array):
    return array.__array_interface__["data"][0]


def bytes_at(address, n):
    return np.ctypeslib.as_array((ctypes.c_ubyte * n).from_address(address))


def check_array(array, n):
    assert array.dtype == np.uint8 and array.shape == (n,)
    assert array.flags.writeable and array.flags.c_contiguous and array.flags.aligned
    assert address_of(array) % (mmap.PAGESIZE if n >= 64 * KIB else 64) == 0 or n == 0
