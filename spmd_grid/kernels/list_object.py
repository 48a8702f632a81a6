"""The length of a Python list as a word in memory: the one module that relies on the layout of ``PyListObject``."""

from __future__ import annotations

import ctypes

__all__ = ["length_address"]

_OFFSET = (
    object.__basicsize__
)  # the number of items follows the header, as in all of CPython's objects of variable size


def length_address(items: list) -> int:
    """The address of the word that holds the length of ``items``, for compiled code; 0 if it is not where expected.

    Local.  The caller keeps the list alive.
    """
    return id(items) + _OFFSET if _IS_KNOWN else 0


def _is_known() -> bool:
    probe: list[int] = []
    word = ctypes.c_ssize_t.from_address(id(probe) + _OFFSET)
    for length in range(3):
        if word.value != length:
            return False
        probe.append(length)
    probe.pop()
    return word.value == 2


_IS_KNOWN = _is_known()
