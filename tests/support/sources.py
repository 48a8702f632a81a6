"""Sources of random programs and of their arrays: a seed, or hypothesis."""

import numpy as np
from hypothesis import strategies as st

__all__ = ["Drawn", "Source"]


class Source:
    """Draws by numpy, from a seed: alike on all processes."""

    def __init__(self, *seed):
        self._random = np.random.default_rng(seed)

    def number(self, low, high):
        """From ``low`` to ``high``, both included."""
        return int(self._random.integers(low, high + 1))

    def one_of(self, values):
        return values[self.number(0, len(values) - 1)]

    def chance(self, p):
        return self._random.random() < p

    def array(self, shape, dtypes=("f8", "f8", "f8", "f4", "i8")):
        """Small numbers of one of the ``dtypes``, none of them 0 where they have fractions."""
        dtype = self.one_of(dtypes)
        return (self.cells(shape) + {"c": 0.5j, "f": 0.25}.get(dtype[0], 0)).astype(dtype)

    def cells(self, shape):
        """Small whole numbers."""
        return self._random.integers(-4, 5, shape)


class Drawn(Source):
    """The same draws by hypothesis, so that a program that fails shrinks: to fewer and simpler operations."""

    def __init__(self, draw):
        self._draw = draw

    def number(self, low, high):
        return self._draw(st.integers(low, high))

    def chance(self, p):
        return self.number(0, 99) >= 100 * (1 - p)

    def cells(self, shape):
        return np.random.default_rng(self.number(0, 99)).integers(-4, 5, shape)
