"""The header that opens every collective operation: one member's description of its arrays, or its error.

A header is ``HEADER_BYTES`` long, so that one round trip of fixed size carries it.  A description that does not fit
(long dtypes, many dimensions) and the text of an error follow in a second round, which the first one announces to all
members.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from spmd_grid.exchange.dtype_tokens import dtype_of_token, token_of_dtype
from spmd_grid.transport.communicator import HEADER_BYTES, INLINE_BYTES
from spmd_grid.typing import Shape

__all__ = [
    "ERROR",
    "LONG",
    "PLAIN",
    "PREFIX_BYTES",
    "Facts",
    "decode_facts",
    "encode",
    "fingerprint",
    "given_results",
    "read_prefix",
]

PLAIN, LONG, ERROR = 1, 2, 3

_PREFIX = struct.Struct("<BxxxI8s")  # kind, bytes of the description or error text, fingerprint of the call
PREFIX_BYTES = _PREFIX.size

_MOST_KNOWN = 1024
_known: dict[bytes, Facts] = {}  # by their bytes: those of others come again and again


@dataclass(frozen=True, slots=True)
class Facts:
    """The part of a call that one member alone knows.

    ``shape`` and ``dtype`` of its array (None where the operation ignores it) and of its ``out``, if it gave one.
    """

    shape: Shape | None
    dtype: np.dtype | None
    out_shape: Shape | None = None
    out_dtype: np.dtype | None = None

    def array(self) -> tuple[Shape, np.dtype]:
        """Shape and dtype of the array of a member that has one."""
        if self.shape is None or self.dtype is None:
            raise ValueError("this member has no array")
        return self.shape, self.dtype

    @property
    def nbytes(self) -> int:
        """Number of bytes of the array; 0 where there is none."""
        if self.shape is None or self.dtype is None:
            return 0
        n = self.dtype.itemsize
        for extent in self.shape:
            n *= extent
        return n

    @property
    def fits_inline(self) -> bool:
        """Whether the array travels inside the frame, beside the header."""
        return self.nbytes <= INLINE_BYTES


def given_results(facts: Sequence[Facts]) -> tuple[bool, ...]:
    """Whether each member gave an array for the result: a new one takes longer to write to."""
    return tuple(fact.out_shape is not None for fact in facts)


def fingerprint(text: str) -> bytes:
    """Eight bytes that are equal for calls that belong together."""
    return blake2b(text.encode(), digest_size=8).digest()


def encode(kind: int, call: bytes, body: bytes) -> tuple[bytes, bytes]:
    """The header, and the bytes that must follow in a second round (none for PLAIN).  Local."""
    if kind is PLAIN and len(body) > HEADER_BYTES - PREFIX_BYTES:
        kind = LONG
    prefix = _PREFIX.pack(kind, len(body), call)
    if kind is PLAIN:
        return (prefix + body).ljust(HEADER_BYTES, b"\0"), b""
    return prefix.ljust(HEADER_BYTES, b"\0"), body


def encode_facts(facts: Facts) -> bytes:
    """The facts as bytes, equal for equal facts.  Raises DTypeError for dtypes of other packages."""
    dtypes = [None if dtype is None else token_of_dtype(dtype) for dtype in (facts.dtype, facts.out_dtype)]
    return json.dumps([facts.shape, dtypes[0], facts.out_shape, dtypes[1]], separators=(",", ":")).encode()


def decode_facts(body: bytes) -> Facts:
    """The facts of another member, from its bytes.  Raises DTypeError."""
    found = _known.get(body)
    if found is None:
        shape, dtype, out_shape, out_dtype = json.loads(body)
        found = Facts(*_array_of(shape, dtype), *_array_of(out_shape, out_dtype))
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[body] = found
    return found


def read_prefix(header: bytes | bytearray) -> tuple[int, int, bytes]:
    """Kind, length of the body, fingerprint of the call."""
    return _PREFIX.unpack_from(header)


def _array_of(shape: list[int] | None, token: Any) -> tuple[Shape | None, np.dtype | None]:
    return None if shape is None else tuple(shape), None if token is None else dtype_of_token(token)
