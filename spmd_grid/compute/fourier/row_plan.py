"""The layouts of a transform along a dimension that stays cut: the four-step way, and that of prime lengths.

A row of n = n1 * n2 cells is a matrix of n1 rows.  With w = exp(-2 pi i / n), j = n2 * j1 + j2 and k = k1 + n1 * k2,

    X[k1 + n1 * k2] = sum over j2 of  w^(n1 * j2 * k2)  w^(j2 * k1)  sum over j1 of  w^(n2 * j1 * k1) x[n2 * j1 + j2]

so columns are transformed, cells multiplied by w^(j2 * k1), then rows transformed; between these steps the matrix is
transposed, and once more for the order of the result (D. H. Bailey, "FFTs in external or hierarchical memory", 1990).
No process ever holds more than its part of the matrix.

Where no factors of n leave every device its share of rows and of columns, as for primes, the transform becomes a
convolution of a length m >= 2 n - 1 that has such factors (L. I. Bluestein, "A linear filtering approach to the
computation of discrete Fourier transform", 1970).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod
from typing import NamedTuple

from spmd_grid.compute.fourier.shardings import with_offsets
from spmd_grid.compute.splits import block_starts
from spmd_grid.functions.linear.transforms import Transform
from spmd_grid.grid.sharding import Sharding
from spmd_grid.typing import Shape

__all__ = ["CutTransform", "plan_cut_transform"]

# The most cells of a device, as a multiple of an equal share, that are taken for not having to convolve.
_MOST_UNEQUAL = 1.5


class CutTransform(NamedTuple):
    """The layouts of ``transform`` along a dimension that stays cut, on arrays of ``shape``.

    ``factors``: (n1, n2).  ``convolves``: whether their product is the length of a convolution.  ``held``: what each
    device has of the cells that are read, of ``taken`` shape; ``aligned``: where they are brought, so that each device
    has whole rows of the matrix.  ``by_rows``, ``by_columns``: the matrix, of ``matrix`` shape.  ``result``: that of
    the result.
    """

    transform: Transform
    shape: Shape
    factors: tuple[int, int]
    convolves: bool
    held: Sharding
    aligned: Sharding
    taken: Shape
    by_rows: Sharding
    by_columns: Sharding
    matrix: Shape
    result: Sharding

    @property
    def transposes(self) -> int:
        """The number of times that a matrix is transposed."""
        return 5 if self.convolves else 3


def plan_cut_transform(sharding: Sharding, shape: Shape, transform: Transform) -> CutTransform:
    """The layouts for an array of ``shape`` in ``sharding``, which has no halos and no partial axes.  Plans only."""
    d, n, parts = transform.dim, transform.n, prod(sharding.sizes_of(transform.dim))
    found = _factors(n, parts)
    n1, n2 = found or _factors_of_convolution(2 * n - 1, parts)
    cuts = [sharding.axes_of(i) for i in range(len(shape))]
    starts: list[Sequence[int] | None] = [
        block_starts(sharding, i, extent) if cuts[i] else None for i, extent in enumerate(shape)
    ]
    balanced = Sharding(sharding.grid, [cuts[d]], blocks="balanced")
    rows, columns = block_starts(balanced, 0, n1), block_starts(balanced, 0, n2)

    def along(bounds: Sequence[int], extent: int) -> Sharding:
        clipped = tuple([min(bound, extent) for bound in bounds])
        return with_offsets(sharding.grid, cuts, [*starts[:d], clipped, *starts[d + 1 :]])

    def matrix(of_rows: bool) -> Sharding:
        pair: list[tuple[int, ...]] = [cuts[d], ()] if of_rows else [(), cuts[d]]
        bounds: list[Sequence[int] | None] = [rows, None] if of_rows else [None, columns]
        both = [*cuts[:d], *pair, *cuts[d + 1 :]]
        return with_offsets(sharding.grid, both, [*starts[:d], *bounds, *starts[d + 1 :]])

    taken = min(transform.taken, shape[d])
    own = block_starts(sharding, d, shape[d])
    in_order = [start * n2 for start in rows] if found is None else [start * n1 for start in columns]
    return CutTransform(
        transform,
        shape,
        (n1, n2),
        found is None,
        along(own, taken),
        along(tuple([start * n2 for start in rows]), taken),
        (*shape[:d], taken, *shape[d + 1 :]),
        matrix(True),
        matrix(False),
        (*shape[:d], n1, n2, *shape[d + 1 :]),
        along((*in_order[:-1], transform.given), transform.given),
    )


def _factors(n: int, parts: int) -> tuple[int, int] | None:
    """Factors of ``n`` of which each leaves ``parts`` devices about equal shares; None where there are none."""
    best: tuple[float, int] | None = None
    for small in range(isqrt(n), 1, -1):
        if n % small == 0:
            most = max(-(-small // parts) * (n // small), -(-(n // small) // parts) * small)
            if best is None or most < best[0]:
                best = most, small
    if best is None or best[0] > _MOST_UNEQUAL * -(-n // parts):
        return None
    return n // best[1], best[1]


def _factors_of_convolution(least: int, parts: int) -> tuple[int, int]:
    """Factors, both multiples of ``parts`` and of small primes beside, of a number that is at least ``least``."""
    ways = []
    rows = parts
    while rows < parts + isqrt(least) * 2:
        columns = parts * _smooth(-(-least // (rows * parts)))
        ways.append((rows * columns, abs(rows - columns), rows, columns))
        rows = parts * _smooth(rows // parts + 1)
    return min(ways)[2:]


def _smooth(least: int) -> int:
    """The smallest number from ``least`` that has no prime factors but 2, 3 and 5."""
    n = max(least, 1)
    while True:
        rest = n
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return n
        n += 1
