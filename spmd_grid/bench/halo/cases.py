"""The rows of the halo benchmark: blocks and the way they are cut; and the values of a correct halo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spmd_grid.formatting import bytes_text, count_text

__all__ = ["HaloCase", "all_cases", "fill_faces", "neighbours_of", "quick_cases", "wrong_cells"]

_SIZES = {2: (64, 512, 4096), 3: (32, 64, 128)}
_DOUBLE = 8  # bytes


@dataclass(frozen=True)
class HaloCase:
    """A block of ``n`` cells along each of ``ndim`` dimensions per rank, with a halo along dimension ``cut`` only.

    ``cut`` is the first dimension, whose faces are one run of memory each, or the last, whose faces are a short run per
    line.  A line of ranks that is not ``periodic`` has two ends, whose ranks have one neighbour.
    """

    ndim: int
    n: int
    cut: int
    n_fields: int
    width: int
    periodic: bool = True

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
        ends = "" if self.periodic else ", not periodic"
        return f"{self.ndim}-d {self.n}^{self.ndim} {kind}, {fields}, width {self.width}, face {face}{ends}"

    def received_cells(self, ranks: int) -> int:
        """The cells that a rank receives: from two neighbours, or from one on a line of two ranks that ends."""
        sides = 2 if self.periodic or ranks > 2 else 1
        return sides * self.n_fields * self.face_bytes // _DOUBLE

    def global_shape(self, ranks: int) -> tuple[int, ...]:
        return tuple(self.n * ranks if dim == self.cut else self.n for dim in range(self.ndim))

    @property
    def split_axes(self) -> list[list[int]]:
        return [[0] if dim == self.cut else [] for dim in range(self.ndim)]


def all_cases() -> list[HaloCase]:
    periodic = [
        HaloCase(ndim, n, cut, n_fields, width)
        for ndim, sizes in _SIZES.items()
        for n in sizes
        for cut in (0, ndim - 1)
        for n_fields in (1, 3)
        for width in (1, 2)
    ]
    return periodic + [HaloCase(2, n, 0, 1, width, periodic=False) for n in _SIZES[2] for width in (1, 2)]


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


def neighbours_of(rank: int, ranks: int, periodic: bool) -> list[int | None]:
    """The ranks below and above on a line; None beyond its ends.

    >>> neighbours_of(0, 2, periodic=True), neighbours_of(0, 2, periodic=False)
    ([1, 1], [None, 1])
    """
    return [each % ranks if periodic or 0 <= each < ranks else None for each in (rank - 1, rank + 1)]


def wrong_cells(
    fields: Sequence[np.ndarray], dim: int, width: int, rank: int, ranks: int, periodic: bool = True
) -> int:
    """Number of halo cells without the value that a neighbour on the line wrote by `fill_faces`."""
    wrong = 0
    below, above = neighbours_of(rank, ranks, periodic)
    for number, field in enumerate(fields):
        for side, start, neighbour in ((1, 0, below), (0, field.shape[dim] - width, above)):
            if neighbour is not None:
                halo = _layers(field, dim, start, start + width)
                wrong += int((halo != _pattern(halo, neighbour, number, side)).sum())
    return wrong
