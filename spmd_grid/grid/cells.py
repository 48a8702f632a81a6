"""Regular sets of cells of a local array, in order, backwards or repeated: the source or the target of a box copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from spmd_grid.grid.box import Box
from spmd_grid.typing import Shape

__all__ = ["Cells"]


class Cells(NamedTuple):
    """Cell ``starts + i * steps`` for every multi-index i of ``shape``; a step is 1, 0 (the same again) or -1.

    >>> Cells((3,), (-1,), (2,)).view(np.arange(5)).tolist()
    [3, 2]
    """

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    shape: Shape

    @classmethod
    def of_box(cls, box: Box) -> Cells:
        """The cells of ``box`` in order."""
        return cls(box.starts, (1,) * box.ndim, box.shape)

    def offset(self, strides: Sequence[int]) -> int:
        """The offset of the first cell in an array of ``strides``."""
        return sum(start * stride for start, stride in zip(self.starts, strides, strict=True))

    def strides(self, strides: Sequence[int]) -> tuple[int, ...]:
        """The strides of :meth:`view` of an array of ``strides``."""
        return tuple([step * stride for step, stride in zip(self.steps, strides, strict=True)])

    def view(self, x: np.ndarray) -> np.ndarray:
        """The cells of ``x``; a view, in which a cell may occur several times.  Local."""
        first = x[tuple([slice(start, None) for start in self.starts])]
        return as_strided(first, self.shape, self.strides(x.strides))
