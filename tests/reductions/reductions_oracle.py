"""Oracles of the reductions: exact sums as fractions, rounded by looking at neighbours; and layouts."""

import math
from fractions import Fraction

import numpy as np

import spmd_grid as sg

SHAPE = (7, 5)

# (processes, grid, split axes, options): 1 to 6 processes, all block rules, halos, copies, blocks without cells.
LAYOUTS = {
    "one": (1, (1,), [[0]], {}),
    "rows": (2, (2,), [[0]], {}),
    "columns with halos": (3, (3,), [[], [0]], {"halo_sizes": [2, 1]}),
    "tiles": (4, (2, 2), [[0], [1]], {"halo_sizes": [1, 1, 2, 0]}),
    "copies of rows": (4, (2, 2), [[1]], {"halo_sizes": [0, 1]}),
    "copies of all": (3, (3,), [[], []], {}),
    "2x3": (6, (2, 3), [[0], [1]], {"halo_sizes": [1, 1, 1, 1]}),
    "3x2 balanced": (6, (3, 2), [[1], [0]], {"blocks": "balanced"}),
    "2x3 nested": (6, (2, 3), [[0, 1]], {}),
    "2x3 copies": (6, (2, 3), [[], [1]], {"blocks": "balanced", "halo_sizes": [1, 0]}),
    "3x2 offsets": (6, (3, 2), [[0], [1]], {"sharded_dims_offsets": [[0, 0, 6, 7], [0, 5, 5]], "halo_sizes": [1] * 4}),
}


def spread(array, grid, split_axes, options, poison=None):
    """The array on the grid, with junk in every halo cell."""
    a = sg.ShardedArray.from_global(array, sg.Sharding(grid, split_axes, **options), grid)
    if a.sharding.halo_sizes is not None:
        core = a.core.copy()
        a.local[...] = array.dtype.type(1 if array.dtype.kind == "b" else 77) if poison is None else poison
        a.core[...] = core
    return a


def nearest(value, dtype):
    """The float of ``dtype`` nearest to a fraction, ties to even, found among neighbours."""
    dtype = np.dtype(dtype)
    info = np.finfo(dtype)
    largest, bits = Fraction(float(info.max)), f"u{dtype.itemsize}"
    if abs(value) >= largest + Fraction(float(info.max) - float(np.nextafter(info.max, dtype.type(0)))) / 2:
        return dtype.type(math.inf if value > 0 else -math.inf)
    with np.errstate(all="ignore"):
        near = dtype.type(float(max(-largest, min(largest, value))))
        candidates = [near, np.nextafter(near, dtype.type(np.inf)), np.nextafter(near, dtype.type(-np.inf))]
    candidates = [each for each in candidates if np.isfinite(each)]
    least = min(abs(Fraction(float(each)) - value) for each in candidates)
    best = [each for each in candidates if abs(Fraction(float(each)) - value) == least]
    return next((each for each in best if not each.view(bits) & 1), best[0]) + dtype.type(0)


def nearest_root(value, dtype):
    """The float of ``dtype`` nearest to the square root of a fraction, found by squares of midpoints."""
    dtype = np.dtype(dtype)
    shift = 4 * max(0, 1200 - value.numerator.bit_length() + value.denominator.bit_length())
    root = Fraction(math.isqrt(value.numerator * 2**shift // value.denominator), 2 ** (shift // 2))
    return nearest(root, dtype)  # its error is far below half a unit, and no root of a float is a midpoint


def exact_sum(values, dtype):
    """The sum of finite and other real numbers, rounded once."""
    values = [float(value) for value in np.ravel(values)]
    finite = [Fraction(value) for value in values if math.isfinite(value)]
    return _with_specials([value for value in values if not math.isfinite(value)], sum(finite, Fraction(0)), dtype)


def exact_dot(x, y, dtype):
    pairs = [(float(a), float(b)) for a, b in zip(np.ravel(x), np.ravel(y), strict=True)]
    finite = [Fraction(a) * Fraction(b) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]
    specials = [a * b for a, b in pairs if not (math.isfinite(a) and math.isfinite(b))]
    return _with_specials(specials, sum(finite, Fraction(0)), dtype)


def _with_specials(specials, total, dtype):
    if specials:
        with np.errstate(all="ignore"):
            found = np.sum(specials)
        return np.dtype(dtype).type(np.nan if np.isnan(found) else found)
    return nearest(total, dtype)


def same_bits(a, b):
    return type(a) is type(b) and a.tobytes() == b.tobytes()
