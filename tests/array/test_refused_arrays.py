"""Refusals of constructors of sharded arrays, alike on all ranks."""

import numpy as np
import pytest
from support.sharded_arrays import ROW, on_grid, refused

import spmd_grid as sg


def read_only(shape):
    x = np.zeros(shape)
    x.flags.writeable = False
    return x


LOCALS = {
    "shape": (lambda: np.zeros((3, 3)), "ShapeError", "(3, 3)"),
    "ndim": (lambda: np.zeros(4), "ShapeError", "(4,)"),
    "read-only": (lambda: read_only((4, 2)), "OutputError", "read-only"),
    "list": (lambda: [[0.0] * 2] * 4, "OutputError", "list"),
    "none": (lambda: None, "OutputError", "NoneType"),
    "dtype": (lambda: np.zeros((4, 2), "f4"), "DTypeError", "float32"),
    "objects": (lambda: np.zeros((4, 2), object), "DTypeError", "objects"),
    "masked": (lambda: np.ma.zeros((4, 2)), "DTypeError", "mask"),
}


@pytest.mark.parametrize("culprit", [0, 3])
@pytest.mark.parametrize("what", LOCALS)
def test_from_local_refuses_on_all(spmd, what, culprit):
    make, error, words = LOCALS[what]

    def call(grid):
        s = sg.Sharding(grid, [[0], [1]], halo_sizes=[1, 1, 0, 0])
        sg.ShardedArray.from_local(np.zeros((4, 2)), s, grid, (4, 4))  # what fits is prepared by now
        sg.ShardedArray.from_local(make() if grid.rank == culprit else np.zeros((4, 2)), s, grid, (4, 4))

    name, message = refused(spmd, call)
    assert name == error
    assert words in message
    assert message.startswith("from_local: ")


@pytest.mark.parametrize(
    ("array", "error"),
    [(np.zeros((4, 5)), "ShapeError"), (np.zeros((4, 4), "i4"), "DTypeError"), (None, "DTypeError")],
    ids=["shape", "dtype", "none"],
)
def test_from_global_refuses_on_all(spmd, array, error):
    def call(grid):
        s = sg.Sharding(grid, [[0], [1]])
        sg.ShardedArray.from_global(array if grid.rank == 2 else np.zeros((4, 4)), s, grid)

    name, message = refused(spmd, call)
    assert name == error
    assert message.startswith("from_global: ")


def test_from_global_with_different_shardings(spmd):
    def check(grid):
        s = sg.Sharding(grid, [[0], [1]] if grid.rank else [[1], [0]])
        with pytest.raises(sg.MismatchError, match="rank 0"):
            sg.ShardedArray.from_global(np.zeros((4, 4)), s, grid)

    on_grid(spmd, 4, check, (2, 2))


@pytest.mark.parametrize(
    ("f", "error"),
    [
        (lambda i, j: np.zeros(3), "ShapeError"),
        (lambda i, j: i * 1.5, "DTypeError"),
        (lambda i, j: np.array([None]), "DTypeError"),
    ],
    ids=["shape", "dtype", "objects"],
)
def test_from_function_refuses_on_all(spmd, f, error):
    def call(grid):
        s = sg.Sharding(grid, [[0], [1]])
        sg.from_function(f if grid.rank == 3 else lambda i, j: i + j, (4, 4), s, grid)

    name, message = refused(spmd, call)
    assert name == error
    assert message.startswith("from_function: ")


KNOWN_TO_ALL = {
    "no sharding": (lambda grid: sg.zeros((4,), [[0]], grid), "GridError"),
    "no grid": (lambda grid: sg.zeros((4,), sg.Sharding(grid, ROW), grid.grid), "GridError"),
    "another grid": (lambda grid: sg.zeros((4,), sg.Sharding(sg.Grid((4,)), ROW), grid), "GridError"),
    "too few dimensions": (lambda grid: sg.zeros((4,), sg.Sharding(grid, [[0], [1]]), grid), "ShardingError"),
    "negative extent": (lambda grid: sg.zeros((-4,), sg.Sharding(grid, ROW), grid), "ShardingError"),
    "offsets do not cover": (
        lambda grid: sg.zeros((4,), sg.Sharding(grid, ROW, sharded_dims_offsets=[0, 1, 3]), grid),
        "ShardingError",
    ),
    "unknown dtype": (lambda grid: sg.zeros((4,), sg.Sharding(grid, ROW), grid, dtype="f9"), "DTypeError"),
    "objects": (lambda grid: sg.empty((4,), sg.Sharding(grid, ROW), grid, dtype=object), "DTypeError"),
    "fill with a row": (lambda grid: sg.full((4,), sg.Sharding(grid, ROW), grid, fill_value=[1, 2]), "DTypeError"),
    "root too short": (lambda grid: sg.zeros((4,), sg.Sharding(grid, ROW), grid).to_global(root=[0]), "DeviceError"),
    "root outside": (lambda grid: sg.zeros((4,), sg.Sharding(grid, ROW), grid).to_global(root=[0, 2]), "DeviceError"),
}


@pytest.mark.parametrize("what", KNOWN_TO_ALL)
def test_arguments_known_to_all(spmd, what):
    make, error = KNOWN_TO_ALL[what]
    assert refused(spmd, make)[0] == error
