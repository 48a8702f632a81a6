"""The rows of the halo benchmark: blocks and the way they are cut; and the values of a correct halo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spmd_grid.formatting import bytes_text, count_text

__all__ = ["HaloCase", "all_cases", "fill_faces", "quick_cases", "wrong_cells"]

_SIZES = {2: (64, 512, 4096), 3: (32, 64, 128)}
_DOUBLE = 8  # bytes


@dataclass(frozen=True)
class HaloCase:
    """A block of ``n`` cells along each of ``ndim`` dimensions per rank, with a halo along dimension ``cut`` only.

    ``cut`` is the first dimension, whose faces are one run of memory each, or the last, whose faces are a short run per
    line.
    """

    ndim: int
    n: int
    cut: int
    n_fields: int
    width: int

    @property
    def is_rows(self) -> bool:
        return self.cut == 0

    @property
    def face_bytes(self) -> int:
        """Bytes of one side's face of one field."""
        return _DOUBLE * self.width * self.n ** (self.ndim - 1)

    @property
    def name(self) -> str:
        kind = "rows" if self.is_rows else "unit stride"
        fields = count_text(self.n_fields, "field")
        face = bytes_text(self.face_bytes)
        return f"{self.ndim}-d {self.n}^{self.ndim} {kind}, {fields}, width {self.width}, face {face}"

    def global_shape(self, ranks: int) -> tuple[int, ...]:
        return tuple(self.n * ranks if dim == self.cut else self.n for dim in range(self.ndim))

    @property
    def split_axes(self) -> list[list[int]]:
        return [[0] if dim == self.cut else [] for dim in range(self.ndim)]


def all_cases() -> list[HaloCase]:
    return [
        HaloCase(ndim, n, cut, n_fields, width)
        for ndim, sizes in _SIZES.items()
        for n in sizes
        for cut in (0, ndim - 1)
        for n_fields in (1, 3)
        for width in (1, 2)
    ]


def quick_cases() -> list[HaloCase]:
    """A few rows of each kind, all of them small."""
    return [HaloCase(2, 64, 0, 1, 1), HaloCase(2, 512, 0, 3, 1), HaloCase(2, 64, 1, 1, 1), HaloCase(3, 64, 2, 1, 2)]


# -- values of a correct halo ----------------------------------------------------------------------------------


def _layers(field: np.ndarray, dim: int, start: int, stop: int) -> np.ndarray:
    return field[(slice(None),) * dim + (slice(start, stop),)]


def _pattern(face: np.ndarray, rank: int, field: int, side: int) -> np.ndarray:
    """The values of ``rank`` in its face towards ``side`` (0 low, 1 high): a different number in every cell."""
    return 1e9 * ((rank * 8 + field) * 2 + side) + np.arange(face.size).reshape(face.shape)


def fill_faces(fields: Sequence[np.ndarray], dim: int, width: int, rank: int) -> None:
    """Write the outermost own layers, and NaN into the halo."""
    for number, field in enumerate(fields):
        n = field.shape[dim]
        for side, start in enumerate((width, n - 2 * width)):
            face = _layers(field, dim, start, start + width)
            face[...] = _pattern(face, rank, number, side)
        for start in (0, n - width):
            _layers(field, dim, start, start + width)[...] = np.nan


def wrong_cells(fields: Sequence[np.ndarray], dim: int, width: int, rank: int, ranks: int) -> int:
    """Number of halo cells without the value that a neighbour on the periodic line wrote by `fill_faces`."""
    wrong = 0
    for number, field in enumerate(fields):
        n = field.shape[dim]
        for side, start, neighbour in ((1, 0, rank - 1), (0, n - width, rank + 1)):
            halo = _layers(field, dim, start, start + width)
            wrong += int((halo != _pattern(halo, neighbour % ranks, number, side)).sum())
    return wrong
