"""Invalid calls of array functions raise one error, the same on every process, before anything moves."""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.compute.calls import _raise_ours
from spmd_grid.functions.table import _TABLE

CASES = {
    "no rule": (lambda a, g: np.linalg.inv(a), sg.ImplicitGatherError, "inv has no sharding rule"),
    "as a plain array": (lambda a, g: np.asarray(a), sg.ImplicitGatherError, "to_global"),
    "truth": (lambda a, g: bool(a), sg.ImplicitGatherError, "np.all or np.any"),
    "iteration": (lambda a, g: list(a), sg.ImplicitGatherError, "one row at a time"),
    "shapes": (lambda a, g: a + np.ones(3), sg.ShapeError, r"add: operands have shapes \(7, 5\), \(3,\)"),
    "dtypes": (lambda a, g: np.bitwise_and(a, 1), sg.DTypeError, "bitwise_and"),
    "foreign operand": (lambda a, g: np.add(a, [1, 2, 3, 4, 5]), sg.DTypeError, "an operand is list"),
    "axis": (lambda a, g: a.sum(axis=2), sg.AxisError, "sum: axis is 2"),
    "axis twice": (lambda a, g: a.sum(axis=(0, -2)), sg.AxisError, "twice"),
    "out of another layout": (
        lambda a, g: np.add(a, 1, out=sg.zeros((7, 5), sg.Sharding(g, [[], [0]]), g)),
        sg.OutputError,
        "add: out has sharding",
    ),
    "out of another shape": (
        lambda a, g: np.add(a, 1, out=sg.zeros((7, 6), sg.Sharding(g, [[0]]), g)),
        sg.OutputError,
        r"out has shape \(7, 6\)",
    ),
    "index": (lambda a, g: a[9], IndexError, "index 9 is out of bounds for dimension 0 with extent 7"),
    "fancy index": (lambda a, g: a[[1, 2], [0, 1]], sg.ImplicitGatherError, "2 lists"),
    "assigned shape": (
        lambda a, g: a.__setitem__(np.s_[1:], np.ones((3, 5))),
        sg.ShapeError,
        "setitem: value has shape",
    ),
    "assigned complex number": (
        lambda a, g: a.fill(1j),
        sg.DTypeError,
        "setitem: value is 1j, and the dtype is float64",
    ),
    "assigned to a list": (lambda a, g: a.__setitem__([0, 5], 1j), sg.DTypeError, "setitem: value is 1j"),
    "assigned number out of bounds": (
        lambda a, g: a.astype("u1").__setitem__(0, 300),
        sg.DTypeError,
        "setitem: value is 300, and the dtype is uint8",
    ),
    "assigned NaN": (lambda a, g: a.astype("i4").__setitem__(a > 3, np.nan), sg.DTypeError, "setitem: value is nan"),
    "mask of another shape": (lambda a, g: a.__setitem__(a[1:] > 0, 1), sg.ShapeError, "setitem: the mask has shape"),
    "kind of a sort of a row": (lambda a, g: np.sort(a[:, 0], kind="no"), ValueError, "kind"),
    "unique rows": (lambda a, g: np.unique(a, axis=0), sg.ImplicitGatherError, "unique rows"),
    "partition": (lambda a, g: np.partition(a[:, 0], 7), ValueError, "partition: kth is 7"),
    "quantile": (lambda a, g: np.quantile(a, 1.5), ValueError, "q is 1.5; it must be from 0 to 1"),
    "quantile of another method": (lambda a, g: np.quantile(a, 0.5, method="hazen"), sg.ImplicitGatherError, "hazen"),
    "names of bins": (lambda a, g: np.histogram(a, "auto"), sg.ImplicitGatherError, "bins='auto'"),
    "edges that fall": (lambda a, g: np.histogram(a, [1, 0]), ValueError, "monotonically"),
    "spread edges": (lambda a, g: np.digitize(a, a[:, 0]), sg.ImplicitGatherError, "spread over processes"),
    "shape of weights": (
        lambda a, g: np.histogram(a, 2, weights=a[1:]),
        sg.ShapeError,
        "histogram: weights have shape",
    ),
    "range of NaN": (lambda a, g: np.histogram(a * np.nan), ValueError, "finite"),
    "bincount of floats": (lambda a, g: np.bincount(a[:, 0]), sg.ShapeError, "bincount"),
    "bincount of negative numbers": (lambda a, g: np.bincount(a[:, 0].astype(int) - 1), ValueError, "negative"),
    "search of spread cells": (lambda a, g: np.searchsorted(a[:, 0], a[:, 1], "both"), ValueError, "side is 'both'"),
    "search by an order": (
        lambda a, g: np.searchsorted(a[:, 0], a[:, 1], sorter=[0]),
        sg.ImplicitGatherError,
        "with a sorter",
    ),
    "sharded repeats": (lambda a, g: np.repeat(a, a[:, 0]), sg.ShapeError, "repeats has shape"),
    "negative sharded repeats": (
        lambda a, g: np.repeat(a, a[:, 0].astype(int) - 9, axis=0),
        ValueError,
        "has a negative number",
    ),
    "nonzero of a number": (
        lambda a, g: np.nonzero(sg.zeros((), sg.Sharding(g, []), g)),
        sg.ShapeError,
        "no dimensions",
    ),
    "mask of compress": (lambda a, g: np.compress(a[1:, 0] > 0, a[:, 0]), sg.ShapeError, "compress: a sharded"),
    "long windows": (
        lambda a, g: np.lib.stride_tricks.sliding_window_view(a, 8, 0),
        sg.ShapeError,
        "must fit into the shape",
    ),
    "writeable windows": (
        lambda a, g: np.lib.stride_tricks.sliding_window_view(a, 2, 0, writeable=True),
        sg.ImplicitGatherError,
        "written",
    ),
    "long kernel": (lambda a, g: np.convolve(a[:, 0], np.ones(8)), sg.ShapeError, "second array has 8 cells"),
    "sharded kernel": (lambda a, g: np.convolve(a[:, 0], a[:2, 0]), sg.ImplicitGatherError, "sharded"),
    "repeats": (lambda a, g: np.repeat(a, [1, 2], axis=0), sg.ShapeError, "one for each of 7 cells"),
    "pad by a function": (lambda a, g: np.pad(a, 1, mode=lambda *x: None), sg.ImplicitGatherError, "by a function"),
    "index along an axis": (
        lambda a, g: np.take_along_axis(a, np.full((7, 1), 5), 1),
        IndexError,
        "take_along_axis: an index is out of bounds",
    ),
    "copyto of another kind": (lambda a, g: np.copyto(a.astype(int), 0.5), sg.DTypeError, "copyto"),
    "reduceat": (lambda a, g: np.add.reduceat(a, [0, 2]), sg.ImplicitGatherError, "add.reduceat"),
    "at": (lambda a, g: np.add.at(a, 0, 1), sg.ImplicitGatherError, "add.at"),
    "matmul": (lambda a, g: a @ a, sg.ShapeError, "matmul: operands have shapes"),
    "reshape": (lambda a, g: a.reshape(4, 4), sg.ShapeError, "cannot be reshaped"),
    "order of a sort": (lambda a, g: np.sort(a, axis=1, order="x"), sg.ImplicitGatherError, "sort of ShardedArrays"),
    "kind of a sort": (lambda a, g: np.sort(a, axis=1, kind="no"), ValueError, "kind"),
    "mode of take": (lambda a, g: np.take(a, [1], axis=1, mode="clip"), sg.ImplicitGatherError, "mode"),
    "prepend": (lambda a, g: np.diff(a, prepend=0), sg.ImplicitGatherError, "prepend"),
    "where of two": (lambda a, g: np.where(a, a), ValueError, "x is given without y"),
    "delete": (lambda a, g: np.delete(a, 5, 1), IndexError, "delete: index 5 is out of bounds"),
    "delete by a matrix": (lambda a, g: np.delete(a, [[1]], 1), sg.ShapeError, r"obj has shape \(1, 1\)"),
    "insert": (lambda a, g: np.insert(a, [0, -6], 1.0, 1), IndexError, "insert: index -6 is out of bounds"),
    "values of insert": (lambda a, g: np.insert(a, 1, np.ones(3), 1), sg.ShapeError, "insert: values have shape"),
    "spread places": (lambda a, g: np.insert(a, a[:, 0], 1, 1), sg.ImplicitGatherError, "spread over processes"),
    "dtype of einsum": (lambda a, g: np.einsum("ij->i", a, dtype="i4"), sg.DTypeError, "einsum: dtype float64"),
    "order of a ufunc": (lambda a, g: np.add(a, 1, order="F"), sg.ImplicitGatherError, "order"),
    "order of matmul": (lambda a, g: np.matmul(a, a.T, order="F"), sg.ImplicitGatherError, "order"),
    "order of ravel": (lambda a, g: np.ravel(a, order="X"), sg.ImplicitGatherError, "reshape with order='X'"),
    "shape of zeros_like": (lambda a, g: np.zeros_like(a, shape=(3,)), sg.ImplicitGatherError, "shape"),
    "dtype without a loop": (lambda a, g: np.add(a, 1, dtype="i4"), sg.DTypeError, "add"),
    "dtype of out": (
        lambda a, g: np.add(a, 1, out=sg.zeros((7, 5), a.sharding, g, dtype="i4")),
        sg.OutputError,
        "add: out has dtype int32",
    ),
    "dtype of out of a composite": (
        lambda a, g: np.mean(a, axis=1, out=sg.zeros((7,), sg.Sharding(g, [[0]]), g, dtype="i4")),
        sg.OutputError,
        "mean: out has dtype int32",
    ),
    "out of a composite in another layout": (
        lambda a, g: np.cumsum(a, axis=0, out=sg.zeros((7, 5), sg.Sharding(g, [[], [0]]), g)),
        sg.OutputError,
        "cumsum: out has sharding",
    ),
    "out alone": (lambda a, g: np.add(1, 2, out=a), sg.OutputError, "no operand is"),
    "a number too large": (lambda a, g: a.astype("i1") + 300, OverflowError, "300"),
    "negative powers": (lambda a, g: np.power(a.astype("i4"), -1), ValueError, "negative integer powers"),
    "a sharded list of floats": (lambda a, g: a[a[0], :], sg.ImplicitGatherError, "to_global"),
    "sharded lists": (lambda a, g: a[a[0].astype(int), a[:, 0].astype(int)], sg.ShapeError, "must broadcast"),
    "a sharded number": (lambda a, g: a[a[0].astype(int) + 3, 0], IndexError, "dimension 0 with extent 7"),
    "einsum, unknown letter": (lambda a, g: np.einsum("ij->k", a), sg.ShapeError, "letters"),
    "tensordot": (lambda a, g: np.tensordot(a, a, axes=([5], [0])), sg.AxisError, "tensordot: axis is"),
    "split": (lambda a, g: np.split(a, 2), ValueError, "do not divide"),
    "pad": (lambda a, g: np.pad(a, 1, mode="median"), sg.ImplicitGatherError, "mode='median'"),
    "weights": (lambda a, g: np.average(a, axis=0, weights=np.ones(5)), sg.ShapeError, "5 weights for extent 7"),
    "matrix norm": (lambda a, g: np.linalg.norm(a, 2), sg.ImplicitGatherError, "ord=2"),
    "list operand": (lambda a, g: np.where(a > 1, [1, 2, 3, 4, 5], a), sg.DTypeError, "an operand is list"),
    "max with a mask": (lambda a, g: np.max(a, axis=0, where=a > 1), ValueError, "initial must be given"),
    "in place, of another kind": (lambda a, g: a.astype("i4").__iadd__(0.5), sg.OutputError, "out has dtype int32"),
    "accumulate": (lambda a, g: np.subtract.accumulate(a), sg.ImplicitGatherError, "subtract.accumulate"),
    "tril": (lambda a, g: np.tril(a[0]), sg.ShapeError, r"tril: the array has shape \(5,\)"),
    "vsplit": (lambda a, g: np.vsplit(a[0], 1), ValueError, r"vsplit: the array has shape \(5,\)"),
    "bincount": (lambda a, g: np.bincount((a[0] - 1).astype(int)), ValueError, "bincount: the array has the number -1"),
    "order of a norm": (lambda a, g: np.linalg.norm(a[0], "fro"), ValueError, "linalg.norm: ord is 'fro' for vectors"),
    "ddof": (lambda a, g: np.var(a, ddof=1, correction=1), ValueError, "var: ddof is 1 and correction is 1"),
    "no weight": (
        lambda a, g: np.average(a[0], weights=np.zeros(5)),
        ZeroDivisionError,
        "average: a sum of weights is 0",
    ),
    "empty argmax": (lambda a, g: np.argmax(a[:0]), ValueError, r"argmax: a has shape \(0, 5\); there must be a cell"),
    "piecewise": (
        lambda a, g: np.piecewise(a, [a > 1], [1, 2, 3]),
        ValueError,
        "there are 3 functions; for 1 conditions",
    ),
    "side of a search for a list": (
        lambda a, g: np.searchsorted(a[:, 0], [1.0], side="mid"),
        sg.ArgumentError,
        "searchsorted: side is 'mid'; it must be 'left' or 'right'",
    ),
    "negative repeats": (lambda a, g: np.repeat(a, -1), sg.ArgumentError, "repeats is -1; it must not be negative"),
    "device": (lambda a, g: a.to_device("gpu"), sg.ArgumentError, "to_device: device is 'gpu'"),
    "taken": (lambda a, g: np.take(a[:, 0], [9]), sg.CellIndexError, "index 9 is out of bounds for dimension 0"),
    "indices": (lambda a, g: a[1, 2, 3], sg.CellIndexError, "the array has 2 dimensions, the index 3"),
    "seed": (lambda a, g: sg.random.Generator("a"), sg.ArgumentError, "Generator: seed is 'a'; it must be a whole"),
    "allocated": (lambda a, g: g.allocate((-1,), "f8"), sg.ShapeError, r"allocate: shape is \(-1,\); it must list"),
    "allocated as": (lambda a, g: g.allocate((1,), "f9"), sg.DTypeError, "allocate: dtype is 'f9'; "),
    "sharding": (lambda a, g: a.reshard([["x"]]), sg.GridError, "reshard: sharding is .* it must be a Sharding"),
    "empty max": (lambda a, g: a[:0].max(axis=0), sg.ShapeError, "max: a has shape .* there must be a cell"),
}


DIMENSIONS = ("axis", "axes", "axis1", "axis2", "axisa", "axisb", "axisc", "source", "destination", "start")

# What the functions need beside the array ``a`` and the dimension.
OTHERS = {
    "append": lambda a: (a, a),
    "apply_along_axis": lambda a: (np.sum,),
    "apply_over_axes": lambda a: (np.sum, a),
    "array_split": lambda a: (a, 1),
    "compress": lambda a: ([True, False], a),
    "concatenate": lambda a: ([a, a],),
    "cross": lambda a: (a, a),
    "delete": lambda a: (a, 1),
    "insert": lambda a: (a, 1, 0),
    "partition": lambda a: (a, 1),
    "argpartition": lambda a: (a, 1),
    "percentile": lambda a: (a, 50),
    "nanpercentile": lambda a: (a, 50),
    "put_along_axis": lambda a: (a, a.astype(int), 0),
    "quantile": lambda a: (a, 0.5),
    "nanquantile": lambda a: (a, 0.5),
    "repeat": lambda a: (a, 2),
    "roll": lambda a: (a, 1),
    "sliding_window_view": lambda a: (a, 2),
    "split": lambda a: (a, 1),
    "stack": lambda a: ([a, a],),
    "take": lambda a: (a, 1),
    "take_along_axis": lambda a: (a, a.astype(int)),
    "tensordot": lambda a: (a, a),
    "vecdot": lambda a: (a, a),
}
# Dimensions that are given besides, where there is no default.
GOOD = {"swapaxes": {"axis1": 0, "axis2": 1}, "moveaxis": {"source": 0, "destination": 0}, "rollaxis": {"axis": 0}}

OF_DIMENSIONS = [
    pytest.param(function, name, id=f"{function.__module__}.{function.__name__} {name}")
    for function, entry in _TABLE.items()
    if not function.__module__.startswith("spmd_grid.")
    for name in DIMENSIONS
    if name in entry.signature.parameters
]


def arguments(function, name, wrong, a):
    others = OTHERS.get(function.__name__, lambda a: (a,))(a)
    dimensions = GOOD.get(function.__name__, {}) | {name: wrong}
    if function in (np.swapaxes, np.apply_along_axis):  # numpy's names are other ones, or come before the array
        return (*others, *dimensions.values(), *([a] if function is np.apply_along_axis else [])), {}
    return others, dimensions


@pytest.mark.parametrize("function, name", OF_DIMENSIONS)
def test_a_dimension_that_the_array_does_not_have(function, name):
    def body():
        grid = sg.init_grid((2,))
        a = sg.from_function(lambda i, j: i + j * 1.0, (4, 3), sg.Sharding(grid, [[0]]), grid)
        for wrong in (7, -8):
            positional, named = arguments(function, name, wrong, a)
            words = rf"\w: (axis|axes|start) is .*{wrong}.*; it must .*[23]"
            with pytest.raises(np.exceptions.AxisError, match=words) as caught:
                function(*positional, **named)
            assert type(caught.value) is sg.AxisError

    sg.run_spmd(body, ranks=2)


@pytest.mark.parametrize(
    "call",
    [lambda a: np.rollaxis(a, 0, "x"), lambda a: np.tensordot(a, a, None), lambda a: np.fft.fftn(a, axes=1.5)],
    ids=["rollaxis", "tensordot", "fftn"],
)
def test_what_is_no_dimension(call):
    def body():
        grid = sg.init_grid((2,))
        with pytest.raises(sg.AxisError):
            call(sg.zeros((4, 3), sg.Sharding(grid, [[0]]), grid))

    sg.run_spmd(body, ranks=2)


def test_errors_that_numpy_raises_within_a_rule_become_ours():
    for theirs, ours in (
        (np.exceptions.AxisError(2, 1), sg.AxisError),
        (ValueError("v"), sg.ArgumentError),
        (IndexError("i"), sg.CellIndexError),
        (sg.ShapeError("s"), sg.ShapeError),
    ):
        with pytest.raises(ours, match=str(theirs)) as caught:
            _raise_ours("f", theirs)
        assert type(caught.value) is ours


# numpy's own, or as it raises them: about values of cells.
OF_NUMPY = {"a number too large", "negative powers", "no weight"}


@pytest.mark.parametrize("case", CASES)
def test_refusals(spmd, case):
    function, kind, words = CASES[case]

    def body():
        grid = sg.init_grid((3,))
        a = sg.from_function(lambda i, j: i + j * 1.0, (7, 5), sg.Sharding(grid, [[0]]), grid)
        with pytest.raises(kind, match=words) as caught:
            function(a, grid)
        assert isinstance(caught.value, sg.SpmdError) or case in OF_NUMPY
        assert a.to_global().sum() == sum(i + j for i in range(7) for j in range(5))  # nothing was harmed
        return str(caught.value)

    assert len(set(spmd(3, body))) == 1
