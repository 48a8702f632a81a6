"""Every function that takes a dimension refuses one that the array does not have, and names it."""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.array import ShardedArray  # noqa: F401 - registers all functions
from spmd_grid.functions.table import _TABLE

TAKE_DIMENSIONS = ("axis", "axes", "axis1", "axis2", "axisa", "axisb", "axisc", "source", "destination", "start")

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

CASES = [
    pytest.param(function, name, id=f"{function.__module__}.{function.__name__} {name}")
    for function, entry in _TABLE.items()
    if not function.__module__.startswith("spmd_grid.")
    for name in TAKE_DIMENSIONS
    if name in entry.signature.parameters
]


def arguments(function, name, wrong, a):
    others = OTHERS.get(function.__name__, lambda a: (a,))(a)
    dimensions = GOOD.get(function.__name__, {}) | {name: wrong}
    if function in (np.swapaxes, np.apply_along_axis):  # numpy's names are other ones, or come before the array
        return (*others, *dimensions.values(), *([a] if function is np.apply_along_axis else [])), {}
    return others, dimensions


@pytest.mark.parametrize("function, name", CASES)
def test_a_dimension_that_the_array_does_not_have(function, name):
    def body():
        grid = sg.init_grid((2,))
        a = sg.from_function(lambda i, j: i + j * 1.0, (4, 3), sg.Sharding(grid, [[0]]), grid)
        for wrong in (7, -8):
            positional, named = arguments(function, name, wrong, a)
            with pytest.raises(sg.AxisError, match=rf"\w: (axis|axes|start) is .*{wrong}.*; it must .*[23]"):
                function(*positional, **named)

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
