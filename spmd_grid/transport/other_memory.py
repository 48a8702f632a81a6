"""Copies from the memory of other processes of this machine, which do nothing for it: Linux's ``process_vm_readv``.

The system may forbid them: to processes of other users, in containers, or as a setting of its own (``ptrace_scope``).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from spmd_grid.errors import TransportError

__all__ = ["MemoryCall", "calls_for", "is_word_at"]

# The system takes as many runs in a call; and a call cannot be interrupted, so it copies few bytes.
_MOST_RUNS, _MOST_BYTES = 1024, 1 << 26

_Function = Callable[[int, int, int, int, int, int], int]


class MemoryCall(NamedTuple):
    """A call of the system that copies from the memory of a process, given by the system's id of it.

    ``here`` and ``there``: runs of bytes in this process and in that one, each an address and a length.
    """

    process: int
    here: np.ndarray
    there: np.ndarray

    @property
    def n_bytes(self) -> int:
        """The number of bytes that it copies."""
        return int(self.here[:, 1].sum())

    def make(self) -> None:
        """Copy all runs.  Raises TransportError where the system refuses to.  Local."""
        function = _process_vm_readv()
        runs = self.here.ctypes.data, len(self.here), self.there.ctypes.data, len(self.there)
        if function is None or function(self.process, *runs, 0) != self.n_bytes:
            reason = os.strerror(ctypes.get_errno())
            error = TransportError(f"the system does not copy from the memory of process {self.process} ({reason})")
            error.cuts_off = True
            raise error


def calls_for(process: int, runs: np.ndarray) -> list[MemoryCall]:
    """The calls that copy runs of bytes: for each its address there, its address here, and its length.  Local."""
    return [MemoryCall(process, _merged(part[:, [1, 2]]), _merged(part[:, [0, 2]])) for part in _parts(runs)]


def is_word_at(process: int, address: int, word: int) -> bool:
    """Whether the system copies from the memory of a process, and finds ``word`` there.  Local."""
    found = np.zeros(1, np.int64)
    try:
        MemoryCall(process, np.array([[found.ctypes.data, 8]]), np.array([[address, 8]])).make()
    except TransportError:
        return False
    return int(found[0]) == word


def _parts(runs: np.ndarray) -> list[np.ndarray]:
    """The runs of each call."""
    pieces: list[Sequence[int]] = []
    for there, here, n_bytes in runs.tolist():
        pieces += [
            (there + done, here + done, min(_MOST_BYTES, n_bytes - done)) for done in range(0, n_bytes, _MOST_BYTES)
        ]
    parts: list[list[Sequence[int]]] = []
    left = 0
    for piece in pieces:
        if not parts or len(parts[-1]) == _MOST_RUNS or piece[2] > left:
            parts.append([])
            left = _MOST_BYTES
        parts[-1].append(piece)
        left -= piece[2]
    return [np.array(part, np.int64) for part in parts]


def _merged(runs: np.ndarray) -> np.ndarray:
    """Runs (offset, length) of which those that follow one another in memory are one."""
    starts = np.flatnonzero(np.append(True, runs[1:, 0] != runs[:-1, 0] + runs[:-1, 1]))
    return np.stack([runs[starts, 0], np.add.reduceat(runs[:, 1], starts)], axis=1)


@cache
def _process_vm_readv() -> _Function | None:
    function = getattr(ctypes.CDLL(None, use_errno=True), "process_vm_readv", None)
    if function is not None:
        address, number = ctypes.c_void_p, ctypes.c_ulong
        function.argtypes = [ctypes.c_int, address, number, address, number, number]
        function.restype = ctypes.c_ssize_t
    return function
