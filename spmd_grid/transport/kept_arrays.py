"""Small arrays that are given out again once nothing refers to them, which is cheaper than making them anew."""

from __future__ import annotations

import os
from collections import deque
from itertools import repeat
from sys import getrefcount
from weakref import WeakSet

import numpy as np

__all__ = ["KeptArrays"]

# The most arrays of a size, and the most sizes.
_MOST_KEPT, _MOST_SIZES = 4, 32


class KeptArrays:
    """The last arrays of each size that an allocator gave out; it gives the same ones again when they are idle.

    An array is idle while only this object refers to it.  Every view of an array refers to it, whether it is numpy's or
    another library's, so an idle one is in no use.  Any thread may call all methods.  A child made by fork keeps
    none: its parent gives them out.
    """

    __slots__ = ("__weakref__", "_by_size")

    def __init__(self) -> None:
        self._by_size: dict[int, deque[np.ndarray]] = {}
        _all.add(self)

    def idle(self, nbytes: int) -> np.ndarray | None:
        """An idle array of the size; None if there is none."""
        kept = self._by_size.get(nbytes)
        return _idle_among(kept, _ALONE) if kept else None

    def keep(self, array: np.ndarray) -> None:
        """Remembers an array that is given out, in place of the one of its size that was found in use last."""
        nbytes = array.nbytes
        kept = self._by_size.get(nbytes)
        if kept is None:
            if len(self._by_size) >= _MOST_SIZES:
                self._by_size.clear()
            kept = self._by_size.setdefault(nbytes, deque(maxlen=_MOST_KEPT))
        kept.append(array)

    def clear(self) -> None:
        """Forgets all arrays; those that are idle are gone."""
        self._by_size.clear()


def _idle_among(kept: deque[np.ndarray], alone: int) -> np.ndarray | None:
    """One of the ``kept`` arrays to which nothing else refers, the last one used first; None if there is none.

    An array is not among the others while its references are counted, so no other thread finds it meanwhile.
    """
    for _ in repeat(None, len(kept)):
        try:
            array = kept.pop()
        except IndexError:  # another thread has it
            return None
        if getrefcount(array) == alone:
            kept.append(array)
            return array
        kept.appendleft(array)
    return None


# What `getrefcount` says there of an array that is nowhere else: 2, and 1 where Python lends its local variables.
_ALONE = 2 if _idle_among(deque([np.empty(1)]), 1) is None else 1

_all: WeakSet[KeptArrays] = WeakSet()


def _clear_in_child() -> None:
    for each in tuple(_all):
        each.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_clear_in_child)
