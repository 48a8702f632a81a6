"""Partial values, and what the reductions refuse: one error, the same on every process."""

import numpy as np
import pytest

import spmd_grid as sg

REDUCTIONS = {
    "sum": sg.sum,
    "dot": lambda a: sg.dot(a, a),
    "norm": sg.norm,
    "max": sg.max,
    "min": sg.min,
}


def refusal(spmd, ranks, call, kind):
    """The text with which all processes are refused."""

    def body():
        with pytest.raises(kind) as caught:
            call(sg.init_grid((ranks,)))
        grid = sg.init_grid((ranks,))
        assert sg.sum(sg.full((4,), sg.Sharding(grid, [[0]]), grid, fill_value=1)) == 4  # all is well after it
        return str(caught.value)

    texts = set(spmd(ranks, body))
    assert len(texts) == 1
    return texts.pop()


@pytest.mark.parametrize("call", [lambda a: sg.dot(a), lambda a: sg.norm(a, axis=0)], ids=["too few", "unknown"])
def test_arguments_that_a_reduction_does_not_take_end_no_operation(spmd, call):
    def on_ones(grid):
        return call(sg.full((4,), sg.Sharding(grid, [[0]]), grid, fill_value=1.0))

    assert "argument" in refusal(spmd, 2, on_ones, TypeError)


def contributions(grid, dtype, kind):
    """A partial array to which device i contributes 10 * i + (0, 1, 2)."""
    s = sg.Sharding(grid, [[]], partial_axes=[0], partial_kind=kind)
    return sg.ShardedArray.from_local(np.arange(3).astype(dtype) + np.dtype(dtype).type(10 * grid.rank), s, grid, (3,))


@pytest.mark.parametrize("dtype", ["i8", "u8", "f4", "f8", "D"])
@pytest.mark.parametrize("reproducible", [False, True])
def test_partial_sums_are_added_as_they_are(spmd, dtype, reproducible):
    def body():
        a = contributions(sg.init_grid((3,)), dtype, "sum")
        whole = a.reshard(sg.Sharding(a.grid, [[]]))
        return sg.sum(a, reproducible=reproducible), sg.sum(whole, reproducible=reproducible)

    for found in spmd(3, body):
        assert found == (99, 99) and found[0].dtype == found[1].dtype


@pytest.mark.parametrize("reproducible", [False, True])
def test_partial_sums_beside_split_and_replicated_axes(spmd, reproducible):
    x = np.random.default_rng(0).integers(-50, 50, (7, 4)).astype("f8")

    def body():
        grid = sg.init_grid((2, 3))
        found = []
        for split_axes, partial_axes in (([[1]], [0]), ([[], [0]], [1]), ([], [1]), ([], [0, 1])):
            s = sg.Sharding(grid, split_axes, partial_axes=partial_axes)
            found.append(sg.sum(sg.ShardedArray.from_global(x, s, grid), reproducible=reproducible))
        return found

    assert spmd(6, body) == [[x.sum()] * 4] * 6


def test_partial_extremes(spmd):
    def body():
        grid = sg.init_grid((3,))
        found = [sg.max(contributions(grid, dtype, "max")) for dtype in ("i1", "f4")]
        return found + [sg.min(contributions(grid, dtype, "min")) for dtype in ("i1", "f4")]

    assert spmd(3, body) == [[22, 22, 0, 0]] * 3


@pytest.mark.parametrize(
    ("name", "kind", "dtype"),
    [
        *[(name, kind, "f8") for name in REDUCTIONS for kind in ("sum", "max", "min", "product") if name != kind],
        *[("sum", "sum", dtype) for dtype in ("?", "i1", "i4", "u2")],
    ],
)
def test_other_partial_values_are_refused(spmd, name, kind, dtype):
    def call(grid):
        REDUCTIONS[name](sg.zeros((3,), sg.Sharding(grid, [], partial_axes=[0], partial_kind=kind), grid, dtype))

    text = refusal(spmd, 2, call, sg.ShardingError)
    assert text.startswith(f"{name}: a of dtype {np.dtype(dtype)} holds partial values") and repr(kind) in text
    assert "grid axes [0]" in text and "reshard" in text


def test_dot_of_a_partial_second_array(spmd):
    def call(grid):
        whole = sg.zeros((3,), sg.Sharding(grid, []), grid)
        sg.dot(whole, sg.zeros((3,), sg.Sharding(grid, [], partial_axes=[0]), grid))

    assert refusal(spmd, 2, call, sg.ShardingError).startswith("dot: b of dtype float64 holds partial values")


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_no_cells(spmd, name, shape):
    text = refusal(spmd, 2, lambda g: REDUCTIONS[name](sg.zeros(shape, sg.Sharding(g, [[0]]), g)), sg.ShapeError)
    assert text == f"{name}: a has shape {shape}; there must be a cell to take the {name} of"


@pytest.mark.parametrize(
    "other",
    [
        {"split_axes": [[], [0]]},
        {"split_axes": []},
        {"split_axes": [[0]], "blocks": "balanced"},
        {"split_axes": [[0]], "sharded_dims_offsets": [[0, 1, 5]]},
    ],
    ids=str,
)
def test_dot_of_other_layouts(spmd, other):
    def call(grid):
        a = sg.zeros((5, 4), sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), grid)
        sg.dot(a, sg.zeros((5, 4), sg.Sharding(grid, **other), grid))

    text = refusal(spmd, 2, call, sg.ShardingError)
    assert text.startswith("dot: a is sharded [[0]] on 2, halo [(1, 1)] and b ") and "b.reshard(a.sharding)" in text


def test_dot_of_other_shapes(spmd):
    def call(grid):
        s = sg.Sharding(grid, [[0]])
        sg.dot(sg.zeros((5,), s, grid), sg.zeros((6,), s, grid))

    assert refusal(spmd, 2, call, sg.ShapeError) == "dot: a has shape (5,) and b (6,); they must be equal"


@pytest.mark.parametrize("name", REDUCTIONS)
def test_what_is_no_sharded_array(spmd, name):
    text = refusal(spmd, 2, lambda grid: REDUCTIONS[name](np.zeros(3)), sg.DTypeError)
    assert text == f"{name}: a is ndarray; it must be a ShardedArray"


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["U2", "S3", "f4,f4"])
def test_dtypes_that_cannot_be_reduced(spmd, name, dtype):
    text = refusal(spmd, 2, lambda g: REDUCTIONS[name](sg.zeros((3,), sg.Sharding(g, [[0]]), g, dtype)), sg.DTypeError)
    assert text == f"{name}: a has dtype {np.dtype(dtype)}; reductions take numeric and bool dtypes"


@pytest.mark.parametrize("name", ["sum", "dot", "norm"])
@pytest.mark.parametrize("dtype", ["g", "G"])
def test_long_doubles_are_not_reproducible(spmd, name, dtype):
    def call(grid):
        a = sg.zeros((3,), sg.Sharding(grid, [[0]]), grid, dtype)
        sg.dot(a, a, reproducible=True) if name == "dot" else getattr(sg, name)(a, reproducible=True)

    assert refusal(spmd, 2, call, sg.DTypeError).startswith(f"{name}: reproducible=True with a result of dtype ")


def test_a_closed_grid(spmd):
    def call(grid):
        a = sg.zeros((3,), sg.Sharding(grid, [[0]]), grid)
        grid.close()
        sg.sum(a)

    assert "closed" in refusal(spmd, 2, call, sg.GridError)


DIFFERENT = {
    "another reduction": lambda grid, a, b: sg.sum(a) if grid.rank else sg.norm(a),
    "reproducible on one": lambda grid, a, b: sg.sum(a, reproducible=bool(grid.rank)),
    "max and min": lambda grid, a, b: sg.max(a) if grid.rank else sg.min(a),
    "another dtype": lambda grid, a, b: sg.sum(a if grid.rank else b),
    "another layout": lambda grid, a, b: sg.sum(
        a if grid.rank else sg.zeros((4,), sg.Sharding(grid, [], halo_sizes=[]), grid)
    ),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_processes_that_reduce_different_things(spmd, case):
    """Known to one process alone: everybody hears of it."""

    def call(grid):
        s = sg.Sharding(grid, [[0]])
        DIFFERENT[case](grid, sg.zeros((4,), s, grid), sg.zeros((4,), s, grid, "f4"))

    text = refusal(spmd, 2, call, sg.MismatchError)
    assert "rank 0" in text and "rank 1" in text
