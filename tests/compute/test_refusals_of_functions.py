"""What cannot be computed is refused with one error, the same on every process, before anything moves."""

import numpy as np
import pytest

import spmd_grid as sg

CASES = {
    "no rule": (lambda a, g: np.fft.fft(a), sg.ImplicitGatherError, "fft has no sharding rule"),
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
    "fancy index": (lambda a, g: a[[1, 2]], sg.ImplicitGatherError, "integers, slices"),
    "assigned shape": (
        lambda a, g: a.__setitem__(np.s_[1:], np.ones((3, 5))),
        sg.ShapeError,
        "setitem: value has shape",
    ),
    "mask of another shape": (lambda a, g: a.__setitem__(a[1:] > 0, 1), sg.ShapeError, "setitem: the mask has shape"),
    "sort of a row": (lambda a, g: np.sort(a[:, 0]), sg.ImplicitGatherError, "sort: the dimension"),
    "matmul": (lambda a, g: a @ a, sg.ShapeError, "matmul: operands have shapes"),
    "reshape": (lambda a, g: a.reshape(4, 4), sg.ShapeError, "cannot be reshaped"),
    "empty max": (lambda a, g: a[:0].max(axis=0), ValueError, "zero-size array"),
}


@pytest.mark.parametrize("case", CASES)
def test_refusals(spmd, case):
    function, kind, words = CASES[case]

    def body():
        grid = sg.init_grid((3,))
        a = sg.from_function(lambda i, j: i + j * 1.0, (7, 5), sg.Sharding(grid, [[0]]), grid)
        with pytest.raises(kind, match=words) as caught:
            function(a, grid)
        assert a.to_global().sum() == sum(i + j for i in range(7) for j in range(5))  # nothing was harmed
        return str(caught.value)

    assert len(set(spmd(3, body))) == 1
