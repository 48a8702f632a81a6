"""Bytes that tests of transports send about, and on how many ranks they do."""

import numpy as np

SIZES = [1, 2, 3, 4, 6]
BYTES = np.uint8


def pattern(n, start=0):
    """n bytes that differ from rank to rank."""
    return ((np.arange(n) * 7 + start * 31) % 251).astype(BYTES)
