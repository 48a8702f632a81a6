"""Headers of members that take part in a collective operation, ready to be posted."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmd_grid.exchange.agreement.header import Facts, encode
from spmd_grid.transport.communicator import HEADER_BYTES

__all__ = ["Opening", "Turns", "can_be_used", "opening_key"]

_MOST_COUNTED = 64
_TURNS_AGAIN = -64  # members whose arrays change by turns make compiled runs useless


class Opening:
    """A header ready to be posted, and the results of `Operation.resolve`, by the headers of the whole group."""

    __slots__ = ("agreed", "body", "header", "inline_stop")

    def __init__(self, kind: int, call: bytes, body: bytes, facts: Facts | None):
        self.header, self.body = encode(kind, call, body)
        self.inline_stop = 0
        if facts is not None and facts.shape is not None and facts.fits_inline:
            self.inline_stop = HEADER_BYTES + facts.nbytes
        self.agreed: dict[bytes, Any] = {}


class Turns:
    """Counts the operations of a call, or of one plan, that Python has made: after some, it prepares a compiled run."""

    def __init__(self) -> None:
        self._made: dict[Opening, int] = {}

    def count(self, opening: Opening) -> int:
        """Count an operation with this opening; their number."""
        made = self._made.get(opening, 0) + 1
        if made == 1 and len(self._made) >= _MOST_COUNTED:
            self._made.clear()
        self._made[opening] = made
        return made

    def begin_again(self, opening: Opening) -> None:
        """Let many more operations be made before the number is reached again."""
        self._made[opening] = _TURNS_AGAIN


def opening_key(x: Any, out: Any) -> tuple | None:
    """The key under which an opening is kept; None where an argument is no plain array and must be checked anew."""
    if type(x) is np.ndarray:
        if out is None:
            return x.shape, x.dtype
        return (x.shape, x.dtype, out.shape, out.dtype) if type(out) is np.ndarray else None
    if x is None and type(out) is np.ndarray:
        return None, None, out.shape, out.dtype
    return (None, None) if x is None and out is None else None


def can_be_used(x: np.ndarray | None, out: np.ndarray | None, needs_contiguous: bool) -> bool:
    """Whether arrays of known shapes and dtypes can be used without conversion or further checks."""
    if x is not None:
        if needs_contiguous and not (x.flags.c_contiguous and x.flags.aligned):
            return False
        if out is not None and (x.base is not None or out.base is not None) and np.may_share_memory(x, out):
            return False  # two arrays that own their memory never overlap
    return out is None or (out is not x and out.flags.writeable)
