"""Bodies of manual computations whose own operations free axes cut, as propagation finds, against numpy on blocks."""

from functools import partial

import numpy as np
import pytest
from support.program.running import gathered

import spmd_grid as sg

NAMES = ["data", "model"]
GRID = sg.Grid((2, 2), axis_names=NAMES)
X = np.arange(8 * 12.0).reshape(8, 12) * 7 % 23 - 9
ROW = np.arange(12.0) % 5 - 2


def sharding(*axes, **options):
    return sg.Sharding(GRID, list(axes), **options)


# In: rows by data, and what is free.  By rows within the blocks, by columns, and left to propagation.
FREE = {
    "rows": sharding(["data", "model"]),
    "columns": sharding(["data"], ["model"]),
    "open": sharding(["data"], ["model", sg.OPEN]),
    "not at all": sharding(["data"]),
}
OUT = sharding(["data", sg.OPEN], [sg.OPEN])


def written(block):
    copy = block * 1.0
    copy[1:, ::2] = block[:-1, ::2]
    copy[0] = 7
    return copy


ALONE = {
    "cells": lambda b: np.maximum(b * 2, 1) - b,
    "a row for all": lambda b: b * ROW + b[0],
    "sums": lambda b: b - b.sum(axis=1, keepdims=True) / b.mean() + np.max(b, axis=0),
    "slices": lambda b: b[::-1, 1:] - b[:, :-1],
    "written": written,
    "reshape": lambda b: np.reshape(b, (2, 24)) + 1,
    "transpose": lambda b: (b.T @ b)[:4],
    "scan": lambda b: np.cumsum(b, axis=0) - np.cumsum(b, axis=1),
    "joined": lambda b: np.concatenate([b[:, 5:], b], axis=1),
    "where": lambda b: np.where(b > 0, np.arange(12), b) + np.argmax(b, axis=1)[:, None],
    "sorted": lambda b: np.sort(b, axis=1) * 2,
    "median": lambda b: b - np.median(b),
    "einsum": lambda b: np.einsum("ij,kj->ik", b, b + ROW),
    "three dimensions": lambda b: (b[:, :, None] * ROW).sum(axis=1),
    "constants": lambda b: np.stack([ROW, ROW + 1]) + 0 * b[:2],
}


def blocks_of(x):
    return x[:4], x[4:]


def check_all(spmd, cases):
    """Run (program, arrays, wanted) on four ranks."""

    def body():
        grid = sg.init_grid((2, 2), axis_names=NAMES)
        for name, part, arrays, wanted in cases:
            given = [sg.from_global(x, each, grid) for x, each in zip(arrays, part.in_shardings)]
            found = part.run(grid, *given)
            found = found if isinstance(found, tuple) else (found,)
            for x, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(gathered(x), want, err_msg=name, atol=1e-12)

    spmd(4, body)


def traced(body, ins, out, *arrays, **options):
    program = sg.trace(sg.manual(body, ins, out, ["data"], **options), *[sg.ArraySpec(x.shape) for x in arrays])
    return sg.partition(program, GRID)


@pytest.mark.parametrize("free", FREE)
def test_bodies_of_numpys_functions(spmd, free):
    cases = []
    for name, body in ALONE.items():
        part = traced(body, [FREE[free]], OUT, X)
        cases.append((name, part, [X], [np.concatenate([body(block) for block in blocks_of(X)])]))
        is_opaque = any(each.name == "manual" for each in part.program.operations)
        assert is_opaque == (name == "median")  # which finds its result by communication of its own
    check_all(spmd, cases)


def test_free_axes_cut_what_a_body_computes():
    """Work, memory and messages are those of a quarter, where the body as a whole has those of a half."""
    columns = FREE["columns"]
    bodies = [traced(lambda b: np.exp(b) * 2, [columns], columns, X, free=free) for free in ("cut", "whole")]
    assert bodies[0].collectives() == []
    assert bodies[1].collectives() == [("all_gather", (1,), 4 * 6 * 8)]
    cut, whole = (part.cost() for part in bodies)
    assert (cut.peak_bytes < whole.peak_bytes, cut.redundant_flops) == (True, 0)
    assert "through leave manual at" in bodies[0].explain()


def stacked(a):
    return np.concatenate([a, a])


TOP, BOTTOM = blocks_of(X)
TALL = np.concatenate([TOP, BOTTOM])
TOGETHER = {
    "all_gather": (lambda b, grid: sg.all_gather(b * 2, grid, ["data"], 0), stacked(2 * TALL)),
    "all_gather of columns": (
        lambda b, grid: sg.all_gather(b, grid, ["data"], 1),
        stacked(np.concatenate([TOP, BOTTOM], axis=1)),
    ),
    "all_slice": (
        lambda b, grid: sg.all_slice(b, grid, ["data"], 1),
        np.concatenate([TOP[:, :6], BOTTOM[:, 6:]]),
    ),
    "all_to_all": (
        lambda b, grid: sg.all_to_all(b, grid, ["data"], 1, 0),
        np.concatenate([TOP[:, :6], BOTTOM[:, :6], TOP[:, 6:], BOTTOM[:, 6:]]),
    ),
    "all_reduce": (lambda b, grid: sg.all_reduce(b, grid, ["data"], "max") - b, stacked(np.maximum(TOP, BOTTOM)) - X),
    "a function": (lambda b, grid: sg.all_reduce(b, grid, ["data"], np.add), stacked(TOP + BOTTOM)),
    "reduce_scatter": (lambda b, grid: sg.reduce_scatter(b, grid, ["data"], "sum", 0), TOP + BOTTOM),
    "broadcast": (lambda b, grid: sg.broadcast(b + 1, grid, ["data"], [1]), stacked(BOTTOM + 1)),
    "shift": (
        lambda b, grid: b + sg.shift(b, grid, ["data"], "data", 1, fill=3.0),
        X + np.concatenate([0 * TOP + 3, TOP]),
    ),
    "started": (lambda b, grid: sg.all_reduce.start(b, grid, ["data"]).wait() * b, stacked(TOP + BOTTOM) * X),
    "twice": (
        lambda b, grid: sg.all_reduce(np.cumsum(sg.shift(b, grid, ["data"], 0, 1, True), axis=1), grid, [0]),
        stacked(np.cumsum(TOP + BOTTOM, axis=1)),
    ),
    "coordinates": (lambda b, grid: b * (1 + grid.coords[0]), np.concatenate([TOP, 2 * BOTTOM])),
    "rank": (lambda b, grid: b + grid.rank // grid.grid_shape([1])[0], np.concatenate([TOP, BOTTOM + 1])),
}


@pytest.mark.parametrize("free", FREE)
def test_bodies_that_communicate(spmd, free):
    cases = []
    for name, (body, wanted) in TOGETHER.items():
        part = traced(body, [FREE[free]], OUT, X)
        cases.append((name, part, [X], [wanted]))
        is_opaque = any(each.name == "manual" for each in part.program.operations)
        assert is_opaque == (name in ("coordinates", "rank"))
    check_all(spmd, cases)


def padded(block, grid):
    wide = np.pad(block, ((1, 1), (0, 0)))
    sg.update_halo(wide, grid, [["data"]], [1, 1], True)
    return wide[2:] - wide[:-2]


def test_halos_partial_values_and_several_arrays(spmd):
    columns, sums = FREE["columns"], sharding(partial_axes=["data"])
    wide = sharding(["data"], ["model"], halo_sizes=[1, 1, 0, 0])
    around = np.pad(X, ((1, 1), (0, 0)))
    two = [columns, sharding(["data"])]
    cases = [
        ("update_halo", traced(padded, [columns], OUT, X), [X], [np.roll(X, -1, 0) - np.roll(X, 1, 0)]),
        ("halos", traced(lambda b: b[2:] - b[:-2], [wide], OUT, X), [X], [around[2:] - around[:-2]]),
        ("contributions", traced(lambda b: b.sum(axis=0), [columns], sums, X), [X], [X.sum(axis=0)]),
        ("whole", traced(lambda b: b.sum(axis=0), [sums], sharding(partial_axes=[0]), X), [X], [X.sum(axis=0)]),
        (
            "two",
            traced(lambda b, c: (b @ c.T, b + c), two, [OUT, columns], X, X + 1),
            [X, X + 1],
            [np.concatenate([b @ (b + 1).T for b in blocks_of(X)]), 2 * X + 1],
        ),
    ]
    assert not any(each.name == "manual" for _, part, _, _ in cases for each in part.program.operations)
    assert ("update_halo", (0,), 2 * 6 * 8) in cases[0][1].collectives()
    check_all(spmd, cases)


def test_nested_bodies_and_axes_that_are_free_in_both(spmd):
    names = ["a", "b", "c"]
    grid = sg.Grid((2, 2, 2), axis_names=names)
    cut = lambda *axes: sg.Sharding(grid, list(axes))  # noqa: E731

    def inner(block, grid):
        return block + sg.all_reduce(block, grid, ["b"]) - sg.all_reduce(block, grid, ["a"])

    def outer(block, grid):
        own = sg.manual(inner, [cut([], ["b", "c"])], cut([], ["b", sg.OPEN]), ["b"])(2 * block)
        return own + sg.shift(block, grid, ["a"], "a", 1, rotate=True)

    fn = lambda x: sg.manual(outer, [cut(["a"])], cut(["a"], ["c", sg.OPEN]), ["a"])(x) + 1  # noqa: E731
    part = sg.partition(sg.trace(fn, sg.ArraySpec(X.shape)), grid)
    assert not any(each.name == "manual" for each in part.program.operations)
    assert part.out_shardings[0].axes_of(1)[0] == 2
    twice = 2 * X
    halves = np.tile(twice[:, :6] + twice[:, 6:], 2)
    wanted = twice + halves - np.tile(twice[:4] + twice[4:], (2, 1)) + np.roll(X, 4, axis=0) + 1

    def body():
        made = sg.init_grid((2, 2, 2), axis_names=names)
        found = part.run(made, sg.from_global(X, part.in_shardings[0], made))
        np.testing.assert_allclose(gathered(found), wanted)

    spmd(8, body)


class Scaled:
    def __init__(self, grid):
        self.grid = grid

    def __call__(self, b):
        return b * self.grid.coords[0]

    def method(self, b):
        return self(b)


def test_a_body_that_has_its_grid_from_outside_runs_as_it_is(spmd):
    def body():
        grid = sg.init_grid((2, 2), axis_names=NAMES)

        def helper(b):
            return sg.all_reduce(b, grid, ["data"]) * grid.coords[0]

        scaled = Scaled(grid)
        bodies = [
            lambda b: b * grid.coords[0],
            lambda b: helper(b),
            scaled,
            scaled.method,
            partial(Scaled.method, scaled),
        ]
        for each, wanted in zip(bodies, (X, stacked(TOP + BOTTOM), X, X, X), strict=True):
            part = traced(each, [FREE["columns"]], OUT, X)
            assert [one.name for one in part.program.operations] == ["constrain", "manual"]
            found = part.run(grid, sg.from_global(X, part.in_shardings[0], grid))
            np.testing.assert_allclose(gathered(found), wanted * (np.arange(8) > 3)[:, None])

    spmd(4, body)


def test_searches_and_mutations_leave_blocks_with_their_devices(spmd):
    program = sg.trace(
        lambda x: sg.manual(lambda b, grid: np.exp(b - sg.all_reduce(b, grid, [0], "max")), [OUT], OUT, ["data"])(x),
        sg.ArraySpec(X.shape),
    )
    inside = next(each for each in program.operations if each.name == "exp")
    with pytest.raises(sg.ShardingError, match="exp at .*test_free_axes.py:.* is a part of a manual computation"):
        program.mutate(inside, [["data"]])
    part = sg.autoshard(program, GRID, seconds=0.3)
    check_all(spmd, [("searched", part, [X], [np.exp(X - stacked(np.maximum(TOP, BOTTOM)))])])


def constrained(block):
    return sg.constrain(block * 2, sharding([], ["model"])) + 1


def test_annotations_inside_cut_blocks_by_free_axes(spmd):
    rows = sharding(["data"])
    part = traced(constrained, [rows], rows, X)
    assert part.collectives() == [("all_gather", (1,), 4 * 6 * 8)]
    assert "because constrain at test_free_axes.py" in part.explain()
    check_all(spmd, [("constrained", part, [X], [2 * X + 1])])
    for options, body in (({"free": "whole"}, constrained), ({}, lambda b, grid: constrained(b) * grid.coords[0])):
        with pytest.raises(sg.ShardingError, match=r"constrain at .*test_free_axes.py:\d+: .* is required inside of"):
            traced(body, [rows], rows, X, **options)
    with pytest.raises(sg.ShardingError, match="is in no group"):
        traced(lambda b: sg.sharding_group(b, 0), [rows], rows, X)
    with pytest.raises(sg.GridError, match="sharding is on 4, in a body on 2x2"):
        traced(lambda b: sg.constrain(b, sg.Sharding(sg.Grid((4,)), [[0]])), [rows], rows, X)


def test_free_must_be_known():
    with pytest.raises(sg.ShardingError, match="free is 'all'; it must be 'cut' or 'whole'"):
        sg.manual(np.exp, [OUT], OUT, ["data"], free="all")
