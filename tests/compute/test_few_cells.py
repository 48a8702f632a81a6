"""Arrays without dimensions, and without cells, and picks by single numbers, against numpy."""

import numpy as np
import pytest
from support.compute.layouts import same

import spmd_grid as sg

# numpy takes 0 and -1 for dimensions of an array that has none, here:
OF_NO_DIMENSIONS = {
    **{
        f"{name}, {axis}": lambda a, name=name, axis=axis: getattr(np, name)(a, axis=axis)
        for name in "sum prod max min any all count_nonzero nansum nanprod nanmax nanmin ptp argmax argmin".split()
        for axis in (0, -1)
    },
    **{
        name: lambda a, name=name: getattr(np, name)(a, axis=-1)
        for name in "squeeze cumsum cumprod nancumsum argsort nanargmax nanargmin".split()
    },
    "extents kept": lambda a: np.sum(a, axis=0, keepdims=True),
    "an extent kept": lambda a: np.argmin(a, axis=0, keepdims=True),
    "initial": lambda a: np.min(a, axis=0, initial=-2),
    "reduce": lambda a: [np.add.reduce(a), np.maximum.reduce(a, axis=-1), np.logical_or.reduce(a)],
    "argpartition": lambda a: np.argpartition(a, 0),
    "repeat": lambda a: np.repeat(a, 3, axis=0),
    "take": lambda a: [np.take(a, 0), np.take(a, [0, -1]), np.take(a, 0, axis=-1), np.take(a, [[0, 0]], axis=0)],
}
ALSO_NOT_NUMPYS = {
    "dimension 1": lambda a: np.sum(a, axis=1),
    "a tuple": lambda a: np.max(a, axis=(0,)),
    "mean": lambda a: np.mean(a, axis=0),
    "sort": lambda a: np.sort(a, axis=0),
    "flip": lambda a: np.flip(a, 0),
    "accumulate": lambda a: np.add.accumulate(a),
    "a cell further": lambda a: np.take(a, 1),
    "fft": lambda a: np.fft.fft(a),
}
OF_NO_CELLS = {
    "partition": lambda a: [np.partition(a, kth) for kth in (0, 3, -1)],
    "along a dimension": lambda a: np.partition(a, [0, 1], axis=0),
    "of all": lambda a: np.partition(a, 0, axis=None),
    "argpartition": lambda a: np.argpartition(a, 0),
    "argpartition of all": lambda a: np.argpartition(a, 2, axis=None),
}
TAKEN = {
    "a number of all": lambda a: [np.take(a, 4), a.take(np.int64(-1)), np.take(a, np.array(0))],
    "a number along rows": lambda a: [np.take(a, 1, axis=0), np.take(a, np.uint8(2), axis=-1)],
    "a table of all": lambda a: np.take(a, [[0, 5], [-1, 3], [2, 2]]),
    "a table along rows": lambda a: np.take(a, np.array([[1, 0, -1]]), axis=0),
    "a table along columns": lambda a: np.take(a, [[[2], [0]]], axis=1),
    "an empty table": lambda a: np.take(a, np.empty((0, 2), int), axis=1),
}


def same_list(found, want):
    if isinstance(want, list):
        assert len(found) == len(want)
        for one, other in zip(found, want):
            same(one, other)
    else:
        same(found, want)


@pytest.mark.filterwarnings("ignore:All-NaN")
@pytest.mark.parametrize("number", [np.float64(-2.5), np.float32(np.nan), np.int16(7), np.True_, np.complex128(2 - 1j)])
def test_without_dimensions(spmd, number):
    def body():
        grid, x = sg.init_grid((3,)), np.asarray(number)
        a = sg.from_global(x, sg.Sharding(grid, []), grid)
        for function in OF_NO_DIMENSIONS.values():
            try:
                with np.errstate(invalid="ignore"):
                    want = function(x)
            except (TypeError, ValueError) as refused:  # ptp of bools, positions of NaN alone
                with pytest.raises((type(refused), sg.SpmdError)):
                    function(a)
            else:
                same_list(function(a), want)
        for function in ALSO_NOT_NUMPYS.values():
            for each in (x, a):
                with pytest.raises((IndexError, TypeError, ValueError)):
                    function(each)

    spmd(3, body)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 3)])
def test_partitions_of_no_cells(spmd, shape):
    def body():
        grid, x = sg.init_grid((3,)), np.empty(shape, np.float32)
        a = sg.from_global(x, sg.Sharding(grid, [[0], *[[]] * (len(shape) - 1)]), grid)
        for function in OF_NO_CELLS.values():
            same_list(function(a), function(x))

    spmd(3, body)


@pytest.mark.parametrize("split", [[[0], []], [[], [0]], [[], []]])
def test_takes_of_numbers_and_tables(spmd, split):
    def body():
        grid, x = sg.init_grid((3,)), np.arange(6.0).reshape(2, 3) ** 2
        a = sg.from_global(x, sg.Sharding(grid, split), grid)
        for function in TAKEN.values():
            same_list(function(a), function(x))
        for wrong in (0.0, [True, False], "0", [[0.5]]):
            with pytest.raises(sg.DTypeError, match="take: indices have dtype .*; they must be integers"):
                np.take(a, wrong, axis=0)
        with pytest.raises(IndexError):
            np.take(a, [[0, 2]], axis=0)

    spmd(3, body)
