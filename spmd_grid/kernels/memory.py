"""Arrays as addresses, and addresses as arrays."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

from spmd_grid.errors import DTypeError
from spmd_grid.kernels.array_object import address_of

__all__ = ["Flat", "bytes_at", "flatten", "strided_bytes_at"]


class Flat(NamedTuple):
    """The address of an array's first element, its strides and its item size, in bytes."""

    address: int
    strides: tuple[int, ...]
    itemsize: int


def flatten(x: np.ndarray) -> Flat:
    """Address, strides and item size of ``x``; the caller keeps ``x`` alive for as long as it uses the address.

    Local.  Arrays that hold Python objects are refused: copying their bytes would break reference counts.
    """
    if x.dtype.hasobject:
        raise DTypeError(f"bytes of an array of dtype {x.dtype}; only dtypes without Python objects can be moved")
    return Flat(address_of(x), x.strides, x.itemsize)


def bytes_at(address: int, n_bytes: int) -> np.ndarray:
    """The memory at ``address`` as flat uint8; the caller keeps it alive.  Local."""
    buffer = (ctypes.c_uint8 * n_bytes).from_address(int(address))
    return np.frombuffer(buffer, np.uint8, n_bytes)  # type: ignore[call-overload]  # ctypes' arrays are buffers


class _Memory:
    """Bytes in memory as numpy's array interface describes them."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.__array_interface__ = {
            "data": (address, False), "shape": shape, "strides": strides, "typestr": "|u1", "version": 3,
        }  # fmt: skip


def strided_bytes_at(address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """A uint8 array over the memory at ``address``; strides in bytes.  The caller keeps the memory alive.  Local."""
    return np.asarray(_Memory(address, shape, strides))
