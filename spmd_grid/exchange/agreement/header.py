"""What a member tells its group about one call: the header that opens every collective operation.

A header is ``HEADER_BYTES`` long, so that one round trip of fixed size carries it.  A description that does not fit
(long dtypes, many dimensions) and the text of an error follow in a second round, of which everybody knows because
everybody has seen the first.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

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
    "read_prefix",
]

PLAIN, LONG, ERROR = 1, 2, 3

_PREFIX = struct.Struct("<BxxxI8s")  # kind, bytes of the description or error text, fingerprint of the call
PREFIX_BYTES = _PREFIX.size


@dataclass(frozen=True, slots=True)
class Facts:
    """What one member alone knows about its call.

    ``shape`` and ``dtype`` of its array (None where the operation ignores it) and of its ``out``, if it gave one.
    """

    shape: Shape | None
    dtype: np.dtype | None
    out_shape: Shape | None = None
    out_dtype: np.dtype | None = None

    @property
    def nbytes(self) -> int:
        if self.shape is None:
            return 0
        n = self.dtype.itemsize
        for extent in self.shape:
            n *= extent
        return n

    @property
    def fits_inline(self) -> bool:
        """Whether the array travels inside the frame, beside the header."""
        return self.nbytes <= INLINE_BYTES


def fingerprint(text: str) -> bytes:
    """Eight bytes that differ between calls that do not belong together."""
    return blake2b(text.encode(), digest_size=8).digest()


def encode(kind: int, call: bytes, body: bytes) -> tuple[bytes, bytes]:
    """The header of exactly ``HEADER_BYTES``, and what must follow in a second round (empty for PLAIN).  Local."""
    if kind is PLAIN and len(body) > HEADER_BYTES - PREFIX_BYTES:
        kind = LONG
    prefix = _PREFIX.pack(kind, len(body), call)
    if kind is PLAIN:
        return (prefix + body).ljust(HEADER_BYTES, b"\0"), b""
    return prefix.ljust(HEADER_BYTES, b"\0"), body


def encode_facts(facts: Facts) -> bytes:
    """The facts as bytes, equal for equal facts."""
    return pickle.dumps(
        (facts.shape, _dtype_token(facts.dtype), facts.out_shape, _dtype_token(facts.out_dtype)), protocol=4
    )


def decode_facts(body: bytes) -> Facts:
    shape, dtype, out_shape, out_dtype = pickle.loads(body)
    return Facts(shape, _dtype_of(dtype), out_shape, _dtype_of(out_dtype))


def read_prefix(header: bytes | bytearray) -> tuple[int, int, bytes]:
    """Kind, length of the body, fingerprint of the call."""
    return _PREFIX.unpack_from(header)


def _dtype_token(dtype: np.dtype | None):
    """A short string for the plain dtypes, the dtype itself for all others (structured, extension types)."""
    if dtype is None:
        return None
    token = dtype.str
    return token if dtype.metadata is None and np.dtype(token) == dtype else dtype


def _dtype_of(token) -> np.dtype | None:
    return None if token is None else np.dtype(token)
