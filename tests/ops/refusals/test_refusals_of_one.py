"""Refusals of what one process alone knows: all learn of it, in the same words; the next operation works."""

import re

import numpy as np
import pytest
from support.ops.refused_calls import BUILTIN, GOOD, MEETING, ROOTED, X, call, caught

import spmd_grid as sg

OBJECTS = np.array([[1, None]])
MASKED = np.ma.masked_array(X, X > 3)
READ_ONLY = np.zeros((2, 3))
READ_ONLY.flags.writeable = False

# By operation: the shape of the result on rank 1 of 2 (where the root is [1]).
RESULT = {
    "all_gather": (4, 3),
    "all_to_all": (1, 6),
    "broadcast": (2, 3),
    "gather": (4, 3),
    "scatter": (1, 3),
    "all_reduce": (2, 3),
    "reduce": (2, 3),
    "reduce_scatter": (1, 3),
    "shift": (2, 3),
}
ANYWHERE = [op for op in MEETING if op not in ("broadcast", "scatter")]
COMPARED = [op for op in ANYWHERE if op != "shift"]
REDUCING = ["all_reduce", "reduce", "reduce_scatter"]


def read_only(op):
    out = np.zeros(RESULT[op])
    out.flags.writeable = False
    return out


def overlapping(op, x):
    """A view that shares memory with x, of the right shape."""
    n = int(np.prod(RESULT[op]))
    memory = np.zeros(max(n, x.size))
    return memory[: x.size].reshape(x.shape), memory[:n].reshape(RESULT[op])


ALONE = {  # by name: operations, what rank 1 passes for x, its out, the error, what the message must hold
    "no array": (MEETING, None, None, "DTypeError", "x is None"),
    "objects": (MEETING, OBJECTS, None, "DTypeError", "Python objects"),
    "a list of objects": (MEETING, [object()], None, "DTypeError", "Python objects"),
    "masked": (MEETING, MASKED, None, "DTypeError", "masked array"),
    "shape": (COMPARED, np.zeros((3, 2)), None, "ShapeError", "(3, 2)"),
    "ndim": (COMPARED, X[None], None, "ShapeError", "(1, 2, 3)"),
    "dtype": (COMPARED, X.astype("f4"), None, "DTypeError", "float32"),
    "byte order": (COMPARED, X.astype(">f8"), None, "DTypeError", ">f8"),
    "text": (REDUCING, X.astype("S3"), None, "DTypeError", "S3"),
    "time": (REDUCING, X.astype("M8[s]"), None, "DTypeError", "datetime64"),
    "structured": (REDUCING, X.view([("a", "f8")]), None, "DTypeError", "'a'"),
    "long dtype": (COMPARED, X.view([("long name " * 20, "f8")]), None, "DTypeError", "long name"),
    "out no array": (MEETING, X, "out", "OutputError", "str"),
    "out read-only": (MEETING, X, read_only, "OutputError", "read-only"),
    "out overlaps": (MEETING, X, overlapping, "OutputError", "overlaps x"),
    "out shape": (MEETING, X, lambda op: np.zeros((9, 9)), "OutputError", "(9, 9)"),
    "out transposed": (MEETING, X, lambda op: np.zeros(RESULT[op][::-1]), "OutputError", "has shape"),
    "out dtype": (MEETING, X, lambda op: np.zeros(RESULT[op], "f4"), "OutputError", "float32"),
}


@pytest.mark.parametrize("name", ALONE)
def test_one_process_alone(spmd, path, name):
    """Every rank of the group raises the same, naming the culprit; no out is touched; the next collective works."""
    ops, culprit_x, out, kind, text = ALONE[name]

    def attempt(op, grid, started):
        root = {"root": [1]} if op in ROOTED else {}
        args = [GOOD[op] | root, X, None]
        if grid.rank == 1:
            args[1] = culprit_x
            if out is overlapping:
                args[1:] = overlapping(op, X)
            elif out is not None:
                args[2] = out(op) if callable(out) else out
        elif op not in ROOTED or op == "reduce":
            args[2] = np.zeros(RESULT[op]) if op != "shift" else None
        before = args[2].copy() if isinstance(args[2], np.ndarray) else None
        given = args[0] | ({} if args[2] is None else {"out": args[2]})
        function = getattr(sg, op)
        if started:
            error = caught(lambda: function.start(args[1], grid, [0], **given).wait())
        else:
            error = caught(function, args[1], grid, [0], **given)
        untouched = before is None or np.array_equal(args[2], before)
        return error, untouched, int(sg.all_reduce(1, grid, [0]))

    def body():
        grid = sg.init_grid((2, 1))
        return [attempt(op, grid, started) for op in ops for started in (False, True)]

    results = spmd(2, body)
    for number, op in enumerate(op for op in ops for _ in range(2)):
        (error, untouched, total), (other, others_untouched, _) = (result[number] for result in results)
        where = name, op, error, other
        assert error == other and error is not None, where
        assert error[0] == kind and error[1] == {BUILTIN.get(kind, "ValueError")}, where
        assert op in error[2] and text in error[2] and "rank 1 (1, 0)" in error[2], where
        assert untouched and others_untouched and total == 2, where


@pytest.mark.parametrize("op", ["all_gather", "gather", "all_to_all"])
def test_extents_that_are_not_true(spmd, path, op):
    def body():
        grid = sg.init_grid((2, 1))
        x = np.zeros((2, 2 + grid.rank)) if op == "all_to_all" else np.zeros((2 + grid.rank, 2))
        return caught(call, op, grid, x, extents=[2, 4]), int(sg.all_reduce(1, grid, [0]))

    first, second = spmd(2, body)
    assert first == second and first[0][0] == "ShapeError" and first[1] == 2
    assert re.search(rf"{op}: extents\[1\]=4, but the array of rank 1 \(1, 0\) has extent 3", first[0][2])


@pytest.mark.parametrize("fill, dtype", [("text", "f8"), (300, "i1"), ([1, 2], "i4"), (1j, "f4")])
def test_a_fill_that_the_dtype_cannot_hold(spmd, path, fill, dtype):
    """Only the devices that nobody sends to would see it: all raise, naming the first of them."""

    def body():
        grid = sg.init_grid((2, 1))
        return caught(call, "shift", grid, X.astype(dtype), fill=fill), int(sg.all_reduce(1, grid, [0]))

    first, second = spmd(2, body)
    assert first == second and first[0][0] == "DTypeError" and first[1] == 2
    assert first[0][2].startswith("shift: fill=") and "rank 0 (0, 0)" in first[0][2]


def test_other_groups_go_on(spmd, path):
    """The refusal stays in the culprit's group."""

    def body():
        grid = sg.init_grid((2, 2))
        x = None if grid.rank == 3 else np.ones(2)
        return caught(sg.all_reduce, x, grid, [1]), int(sg.all_reduce(1, grid, [0, 1]))

    results = spmd(4, body)
    assert [error and error[0] for error, _ in results] == [None, None, "DTypeError", "DTypeError"]
    assert results[2] == results[3] and "rank 3 (1, 1)" in results[2][0][2]
    assert [total for _, total in results] == [4] * 4


def test_alone_in_a_group(spmd, path):
    """Without partners the process raises by itself."""

    def body():
        grid = sg.init_grid((2, 1))
        x = None if grid.rank == 1 else X
        return [
            caught(sg.all_reduce, x, grid, []),
            caught(sg.all_gather, x, grid, [1], 0),
            caught(sg.all_slice, x, grid, [0], 0),
        ]

    good, bad = spmd(2, body)
    assert good == [None] * 3 and [error[0] for error in bad] == ["DTypeError"] * 3


@pytest.mark.parametrize(
    "name, x, out, text",
    [
        ("no array", None, None, "x is None"),
        ("out shape", X, np.zeros((3, 3)), "(3, 3)"),
        ("out dtype", X, np.zeros((1, 3), "f4"), "float32"),
        ("out read-only", X, READ_ONLY[:1], "read-only"),
        ("out overlaps", X, X[:1], "overlaps"),
        ("out no array", X, [0], "list"),
    ],
)
def test_all_slice_raises_where_it_is(spmd, name, x, out, text):
    """It never communicates: the others do not learn of it."""

    def body():
        grid = sg.init_grid((2, 1))
        if grid.rank == 0:
            return caught(sg.all_slice, x, grid, [0], 0, out=out)
        return sg.all_slice(X, grid, [0], 0).tolist()

    error, other = spmd(2, body)
    assert other == X[1:].tolist()
    assert error[2].startswith("all_slice: ") and text in error[2]


@pytest.mark.parametrize(
    "name, x, kind, text",
    [
        ("no array", None, "OutputError", "NoneType"),
        ("list", [[1.0, 2.0]], "OutputError", "list"),
        ("objects", np.array([[None, 1]]), "DTypeError", "Python objects"),
        ("read-only", READ_ONLY, "OutputError", "read-only"),
        ("other dtype", np.zeros((2, 3), "f4"), "DTypeError", "float32"),
        ("other shape", np.zeros((2, 4)), "ShapeError", "(2, 4)"),
        ("other ndim", np.zeros((2, 3, 1)), "ShapeError", "(2, 3, 1)"),
        ("too few dimensions", np.zeros(()), "ShapeError", "x has 0"),
        ("other shape across", np.zeros((1, 3)), "ShapeError", "(1, 3)"),
    ],
)
def test_update_halo_of_one_bad_array(spmd, path, name, x, kind, text):
    """Everybody raises the same, also those whose own neighbours are fine; nothing is half updated."""

    def body():
        grid = sg.init_grid((2, 2))
        local = np.zeros((2, 3)) if grid.rank else x
        error = caught(sg.update_halo, local, grid, [[0], [1]], [1, 1, 0, 1])
        return error, int(sg.all_reduce(1, grid, [0, 1]))

    results = spmd(4, body)
    assert [total for _, total in results] == [4] * 4
    errors = [error for error, _ in results]
    assert all(error is not None and error[0] == kind for error in errors), errors
    assert all("rank 0 (0, 0)" in error[2] and text in error[2] for error in errors), errors
    assert errors[1] == errors[0] and errors[2] == errors[0]


def test_update_halo_of_an_array_smaller_than_its_halo(spmd, path):
    def body():
        grid = sg.init_grid((2, 1))
        return caught(sg.update_halo, np.zeros((2 - grid.rank, 3)), grid, [[0]], [1, 1])

    first, second = spmd(2, body)
    assert first == second and first[0] == "ShapeError"
    assert "rank 1 (1, 0) has extent 1" in first[2] and "1 + 1" in first[2]
