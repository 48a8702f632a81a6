"""Refusals of update_halo: the same error on every rank of the grid, and no rank is left behind."""

import numpy as np
import pytest

import spmd_grid as sg

GRID = (2, 3)
SPLIT = [[0], [1]]
HALO = [1, 1, 1, 1]
PATHS = ["auto", "message"]


def refused(spmd, call, n=6, path="auto"):
    """The one error that all ranks raise; a collective over the whole grid works afterwards."""

    def body():
        grid = sg.init_grid(GRID if n == 6 else (n,))
        with pytest.raises(sg.SpmdError) as caught:
            call(grid)
        assert sg.all_reduce(1, grid, range(grid.ndim), "sum") == n
        x = np.zeros((3, 3))
        assert sg.update_halo(x, grid, SPLIT if n == 6 else [[0]], HALO if n == 6 else [1, 1]) is x
        return type(caught.value).__name__, str(caught.value)

    with sg.forced_path(path):
        results = spmd(n, body)
    assert set(results) == {results[0]}, results
    return results[0]


KNOWN_TO_ALL = {
    "too few halo sizes": (SPLIT, [1, 1], {}, "ShardingError", "halo_sizes"),
    "too many halo sizes": ([[0]], HALO, {}, "ShardingError", "halo_sizes"),
    "an odd number": ([[0]], [1], {}, "ShardingError", "halo_sizes"),
    "pairs of the wrong length": (SPLIT, [[1, 1], [1]], {}, "ShardingError", "halo_sizes"),
    "negative": (SPLIT, [1, -1, 1, 1], {}, "ShardingError", "-1"),
    "not whole": (SPLIT, [1, 1.5, 1, 1], {}, "ShardingError", "1.5"),
    "unknown axis": ([[0], [2]], HALO, {}, "AxisError", "axes of the grid"),
    "negative axis": ([[-1]], [1, 1], {}, "AxisError", "-1"),
    "axis used twice": ([[0], [0]], HALO, {}, "AxisError", "twice"),
    "unknown name": ([["x"]], [1, 1], {}, "AxisError", "x"),
    "periodic per dimension": (SPLIT, HALO, {"periodic": [True]}, "ShapeError", "periodic"),
    "periodic for too many dimensions": (SPLIT, HALO, {"periodic": [True, False, True]}, "ShapeError", "has 3 entries"),
    "periodic beyond global_shape": (
        SPLIT,
        HALO,
        {"periodic": [True, False, True], "global_shape": (2, 3)},
        "ShapeError",
        "which are 2",
    ),
    "periodic in rows": (SPLIT, HALO, {"periodic": [[True, False]]}, "ShapeError", "periodic"),
    "periodic is no bool": (SPLIT, HALO, {"periodic": "yes"}, "ShapeError", "periodic"),
    "global_shape too short": (SPLIT, HALO, {"global_shape": (2,)}, "ShardingError", "global_shape"),
    "unknown rule": (SPLIT, HALO, {"blocks": "round"}, "ShardingError", "blocks"),
    "decreasing offsets": ([[0]], [1, 1], {"sharded_dims_offsets": [0, 2, 1]}, "ShardingError", "offsets"),
    "offsets beyond": (
        [[0]],
        [1, 1],
        {"sharded_dims_offsets": [0, 1, 2], "global_shape": (3, 3)},
        "ShardingError",
        "cover",
    ),
}


@pytest.mark.parametrize("what", KNOWN_TO_ALL)
def test_arguments_known_to_all(spmd, what):
    split, halo, options, error, words = KNOWN_TO_ALL[what]
    name, message = refused(spmd, lambda grid: sg.update_halo(np.zeros((3, 3)), grid, split, halo, **options))
    assert name == error
    assert words in message


def read_only():
    x = np.zeros((3, 3))
    x.flags.writeable = False
    return x


KNOWN_TO_ONE = {
    "list": (lambda: [[0.0] * 3] * 3, "OutputError", "list"),
    "none": (lambda: None, "OutputError", "NoneType"),
    "masked": (lambda: np.ma.zeros((3, 3)), "OutputError", "MaskedArray"),
    "read-only": (read_only, "OutputError", "read-only"),
    "objects": (lambda: np.zeros((3, 3), object), "DTypeError", "objects"),
    "ndim too small": (lambda: np.zeros(3), "ShapeError", "dimensions"),
    "ndim too large": (lambda: np.zeros((3, 3, 1)), "ShapeError", "(3, 3, 1)"),
    "dtype": (lambda: np.zeros((3, 3), "f4"), "DTypeError", "float32"),
    "no room for halos": (lambda: np.zeros((3, 1)), "ShapeError", ""),
    "extent of the other dimension": (lambda: np.zeros((4, 4)), "ShapeError", "(4, 4)"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", ["call", "start"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("culprit", [0, 4])
@pytest.mark.parametrize("what", KNOWN_TO_ONE)
def test_array_of_one_rank(spmd, what, culprit, path, form):
    make, error, words = KNOWN_TO_ONE[what]
    operation = sg.update_halo if form == "call" else sg.update_halo.start

    def call(grid):
        operation(make() if grid.rank == culprit else np.zeros((3, 3)), grid, SPLIT, HALO)

    name, message = refused(spmd, call, path=path)
    assert name == error
    assert words in message
    assert message.startswith("update_halo: ")
    if error == "OutputError":
        assert f"rank {culprit}" in message


def test_several_culprits_one_error(spmd):
    def call(grid):
        x = {1: None, 3: np.zeros((3, 3), "f4"), 5: np.zeros((9, 9))}.get(grid.rank, np.zeros((3, 3)))
        sg.update_halo(x, grid, SPLIT, HALO)

    refused(spmd, call)


def test_global_shape_contradicts_the_blocks(spmd):
    name, message = refused(spmd, lambda grid: sg.update_halo(np.zeros((3, 3)), grid, SPLIT, HALO, global_shape=(2, 4)))
    assert name == "ShapeError"
    assert "global_shape" in message


@pytest.mark.parametrize("global_shape", [(3, 4), (3, 3, 1)])
def test_global_shape_contradicts_a_dimension_that_is_not_split(spmd, global_shape):
    name, message = refused(
        spmd, lambda grid: sg.update_halo(np.zeros((3, 3)), grid, [[0]], [1, 1], global_shape=global_shape), n=3
    )
    assert name == "ShapeError"
    assert "global_shape" in message


def test_offsets_contradict_the_blocks(spmd):
    name, _ = refused(
        spmd,
        lambda grid: sg.update_halo(np.zeros((3, 3)), grid, [[0]], [1, 1], sharded_dims_offsets=[0, 0, 2]),
        n=2,
    )
    assert name == "ShapeError"


def test_halo_sizes_that_differ_between_ranks(spmd):
    """Arguments that should be alike and are not: everybody hears of it, on all lines."""

    def body():
        grid = sg.init_grid(GRID)
        halo = [1, 1, 0, 2] if grid.rank == 4 else HALO
        with pytest.raises(sg.MismatchError) as caught:
            sg.update_halo(np.zeros((3, 3)), grid, SPLIT, halo)
        return sg.all_reduce(1, grid, [0, 1], "sum") == 6 and "rank 4" in str(caught.value)

    assert all(spmd(6, body))


def test_closed_grid_and_no_grid():
    def body():
        with sg.init_grid((1,)) as grid:
            pass
        with pytest.raises(sg.GridError, match="closed"):
            sg.update_halo(np.zeros(3), grid, [[0]], [1, 1])
        with pytest.raises(sg.GridError, match="init_grid"):
            sg.update_halo(np.zeros(3), sg.Grid((1,)), [[0]], [1, 1])

    sg.run_spmd(body, ranks=1)


def test_a_rank_that_leaves_while_others_wait_in_a_started_update():
    """The report names ranks of the line that is being waited for, which may be longer than the first."""

    def body():
        grid = sg.init_grid((3, 2))
        request = sg.update_halo.start(np.zeros((4, 4)), grid, SPLIT, HALO)
        if grid.rank < 4:
            request.wait()

    for seed in range(5):
        with pytest.raises(sg.RankEndedError, match="returned from the program"):
            sg.run_spmd(body, ranks=6, seed=seed)
