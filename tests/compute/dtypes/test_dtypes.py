"""Values, dtypes and shapes are numpy's for every element type, for arrays without cells, and without dimensions."""

import numpy as np
import pytest

import spmd_grid as sg

DTYPES = ["?", "i1", "u1", "f2", "f4", "c8", "f8", ">f4", ">i2"]
FUNCTIONS = {
    "sum": lambda a: np.sum(a, axis=0),
    "sum, dtype": lambda a: np.sum(a, axis=0, dtype="f4"),
    "sum, initial": lambda a: np.sum(a, axis=0, initial=2),
    "sum of all": lambda a: a.sum(),
    "prod": lambda a: np.prod(a, axis=1),
    "mean": lambda a: np.mean(a, axis=0),
    "mean, where": lambda a: np.mean(a, axis=0, where=a != 0),
    "mean of all": lambda a: a.mean(),
    "var, where": lambda a: np.var(a, axis=0, where=a != 0),
    "var, correction": lambda a: np.var(a, axis=0, correction=1),
    "std": lambda a: np.std(a),
    "max": lambda a: np.max(a, axis=0, initial=0),
    "max, where": lambda a: np.max(a, axis=0, initial=1, where=a != 0),
    "argmax": lambda a: np.argmax(a, axis=0, keepdims=True),
    "argmin of all": lambda a: np.argmin(a),
    "cumsum": lambda a: np.cumsum(a, axis=0),
    "cumsum of all": lambda a: np.cumsum(a),
    "cumprod": lambda a: np.cumprod(a, axis=1, dtype="c16"),
    "matmul": lambda a: a @ a.T,
    "einsum": lambda a: np.einsum("ij,kj->ik", a, a),
    "einsum of one": lambda a: np.einsum("ij->j", a),
    "vdot": lambda a: np.vdot(a, a),
    "inner": lambda a: np.inner(a, a),
    "clip": lambda a: np.clip(a, 0, 1) + np.clip(a, min=0.5),
    "where": lambda a: np.where(a != 0, a, 0.5),
    "concatenate": lambda a: np.concatenate([a, a.astype("f4")], axis=None),
    "a whole number": lambda a: a + 1,
    "a number too large": lambda a: a + 300,
    "a float": lambda a: a + 0.5,
    "numpy's numbers": lambda a: np.float64(2) * (a + np.float32(1.5)),
    "power": lambda a: a**2,
    "count_nonzero": lambda a: np.count_nonzero(a, axis=-1),
    "norm": lambda a: np.linalg.norm(a) + np.linalg.norm(a, 1, axis=0),
    "average": lambda a: np.average(a, weights=abs(a) + 1),
    "weights of a dimension": lambda a: np.average(a, axis=0, weights=np.arange(1, 8)),
    "median": lambda a: np.median(a, axis=0),
    "quantile": lambda a: np.quantile(a, 0.3),
    "intersection": lambda a: np.intersect1d(a, np.arange(3.0, dtype="f4")),
    "roll, flattened": lambda a: np.roll(a, 3),
    "no dimension": lambda a: np.sum(a, axis=()),
    "mask": lambda a: np.multiply(a, a, where=a != 0, out=a.copy()),
    "pad": lambda a: np.pad(a, 1),
}


def outcome(function, a):
    try:
        with np.errstate(all="ignore"):
            found = function(a)
    except (TypeError, ValueError, IndexError, ArithmeticError) as error:
        return type(error)
    return np.asarray(found.to_global() if isinstance(found, sg.ShardedArray) else found)


def faults(shape, dtype):
    grid = sg.init_grid((2, 2))
    values = np.random.default_rng(3).integers(0 if dtype in "?u1" else -5, 2 if dtype == "?" else 6, shape)
    x = np.asarray(values + (0.25 if dtype[0] == "f" else 0)).astype(dtype)
    a = sg.ShardedArray.from_global(x, sg.Sharding(grid, [[0], [1]][: x.ndim]), grid)
    for name, function in FUNCTIONS.items():
        want, found = outcome(function, x), outcome(function, a)
        if isinstance(want, type):
            if not isinstance(found, type) and want is not ZeroDivisionError:
                yield name, dtype, "numpy refuses it"
        elif isinstance(found, type):
            if x.ndim != 1:  # for vectors see the refusals
                yield name, dtype, found
        elif found.dtype.newbyteorder("=") != want.dtype.newbyteorder("=") or found.shape != want.shape:
            yield name, dtype, found.dtype, want.dtype, found.shape, want.shape
        elif not np.allclose(found, want, rtol=1e-2 if dtype == "f2" else 1e-5, atol=1e-5, equal_nan=True):
            yield name, dtype, found, want


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("shape", [(7, 5), (0, 5), (7, 0), (1, 1), (7,), ()], ids=str)
def test_dtypes(spmd, shape):
    def body():
        return [fault for dtype in DTYPES[:: 1 if shape == (7, 5) else 2] for fault in faults(shape, dtype)]

    assert spmd(4, body) == [[]] * 4
