"""Element types that few programs have: values of numpy's, or refusals that are alike on all ranks."""

from importlib.util import find_spec

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.errors import CutOffError, SpmdError

NUMBERS = [5, 1, 3, 7, 2, 7, 0]
LETTERS = list("edcbfaz")
STRUCTURED = np.dtype([("a", "i4"), ("b", "f8")])
DTYPES = ["?", "f2", "c8", ">i4", "M8[D]", "m8[h]", "U1", "S1", STRUCTURED]
if find_spec("ml_dtypes"):
    import ml_dtypes

    DTYPES += [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4]

NAMES = (
    "sum prod max min ptp mean var std any all argmax argmin cumsum cumprod count_nonzero nansum nanmax nanmin nanmean"
    " nanargmax nancumsum median diff sort argsort unique flip ravel nonzero flatnonzero ediff1d gradient isnan isnat"
    " isfinite negative abs sign square conj real round bincount trapezoid cov nan_to_num zeros_like sqrt logical_not"
    " histogram array_equal"
).split()
FUNCTIONS = {name: getattr(np, name) for name in NAMES} | {
    "along the cut": lambda a: np.max(np.stack([a, a], 1), axis=0),
    "sums along the cut": lambda a: np.sum(np.stack([a, a], 1), axis=0),
    "maximum.accumulate": np.maximum.accumulate,
    "add.accumulate": np.add.accumulate,
    "logical_or.accumulate": np.logical_or.accumulate,
    "minimum.reduce": np.minimum.reduce,
    "bitwise_or.reduce": np.bitwise_or.reduce,
    "sum, dtype": lambda a: np.sum(a, dtype="f4"),
    "cumsum, dtype": lambda a: np.cumsum(a, dtype="f4"),
    "search": lambda a: np.searchsorted(np.sort(a), a),
    "isin": lambda a: np.isin(a, np.flip(a)),
    "where": lambda a: np.where(a == a, a, np.flip(a)),
    "join": lambda a: np.concatenate([a, a]),
    "union": lambda a: np.union1d(a, a),
    "pad": lambda a: np.pad(a, 1, mode="edge"),
    "dot": lambda a: np.dot(a, a),
    "outer": lambda a: np.outer(a, a),
    "convolve": lambda a: np.convolve(a, np.ones(2)),
    "weighted": lambda a: np.average(a, weights=np.arange(1.0, 8.0)),
    "quantile": lambda a: np.quantile(a, 0.3),
    "transform": np.fft.fft,
    "one cell": lambda a: a[2],
    "cells": lambda a: a[[3, 1]],
    "mask": lambda a: a[a == a],
    "none": lambda a: np.max(a[:0]),
    "sum of none": lambda a: np.sum(a[:0]),
}
# With extension types: added in single precision here, by numpy in half of it and less; or of another dtype there.
ROUNDED = {"prod", "var", "std", "cumprod", "mean", "nanmean", "gradient", "trapezoid", "cov", "dot"}


def cells(dtype):
    dtype = np.dtype(dtype)
    if dtype.names:
        return np.array([(i, i / 2) for i in NUMBERS], dtype)
    return np.array(LETTERS if dtype.kind in "US" else NUMBERS).astype(dtype)


def outcome(function, x):
    try:
        with np.errstate(all="ignore"):
            found = function(x)
    except Exception as error:
        return error
    parts = found if isinstance(found, tuple) else (found,)
    return [np.asarray(part.to_global() if isinstance(part, sg.ShardedArray) else part) for part in parts]


def is_same(found, want):
    if found.shape != want.shape:
        return False
    if want.dtype.kind in "fcV" and not want.dtype.names:
        return np.allclose(found.astype("c8"), want.astype("c8"), rtol=1e-2, equal_nan=True)
    return found.dtype.newbyteorder("=") == want.dtype.newbyteorder("=") and bool((found == want).all())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_a_value_of_numpys_or_a_refusal(spmd, dtype):
    x = cells(dtype)
    is_small = x.dtype.kind == "V" and not x.dtype.names

    def body():
        grid = sg.init_grid((2,))
        a = sg.from_global(x, sg.Sharding(grid, [[0]], sharded_dims_offsets=[[0, 7, 7]]), grid)
        wrong, refused = [], []
        for name, function in FUNCTIONS.items():
            found, want = outcome(function, a), outcome(function, x)
            if isinstance(found, CutOffError):
                return [(name, found)], refused
            if isinstance(found, Exception):
                refused.append((name, type(found).__name__))
                # What numpy takes is taken, or refused by this package; what it refuses may be refused in its words.
                if not isinstance(found, SpmdError if isinstance(want, list) else TypeError | ValueError | IndexError):
                    wrong.append((name, found, want))
            elif isinstance(want, Exception):
                wrong.append((name, found, want))
            elif not (is_small and name in ROUNDED) and not all(map(is_same, found, want)):
                wrong.append((name, found, want))
        return wrong, refused

    (wrong, refused), (_, others_refused) = spmd(2, body)
    assert wrong == [] and refused == others_refused
