"""Arrays compared bit for bit; a failed assertion shows arrays, where pytest would compare bytes for minutes."""

import numpy as np


def same_bytes(a, b):
    """Whether two arrays have equal shapes, dtypes and bytes."""
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
