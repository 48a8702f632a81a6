"""Refusals: one bad input, one message, alike on all; nothing is sent, or all learn of it; the next operation works."""

import re

import numpy as np
import pytest

import spmd_grid as sg

X = np.arange(6.0).reshape(2, 3)
GOOD = {  # a call of every operation on axis [0] of a grid of shape (n, 1)
    "all_gather": {"gather_axis": 0},
    "all_slice": {"slice_axis": 0},
    "all_to_all": {"split_axis": 0, "concat_axis": 1},
    "broadcast": {"root": [0]},
    "gather": {"gather_axis": 0, "root": [0]},
    "scatter": {"scatter_axis": 0, "root": [0]},
    "all_reduce": {"reduction": "sum"},
    "reduce": {"reduction": "sum", "root": [0]},
    "reduce_scatter": {"reduction": "sum", "scatter_axis": 0},
    "shift": {"shift_axis": 0, "offset": 1},
    "send": {"destination": [0]},
    "recv": {"source": [0]},
    "update_halo": {"split_axes": [[0]], "halo_sizes": [0, 1]},
}
MEETING = [op for op in GOOD if op not in ("all_slice", "send", "recv", "update_halo")]
ROOTED = ["broadcast", "gather", "scatter", "reduce"]


def call(op, grid, x=X, grid_axes=(0,), **args):
    args = {name: value for name, value in (GOOD[op] | args).items() if value is not ...}
    if op == "recv":
        return sg.recv(grid, grid_axes, **args)
    if op == "update_halo":
        return sg.update_halo(x.copy(), grid, **args)
    return getattr(sg, op)(x, grid, grid_axes, **args)


def caught(function, *args, **named):
    """The type, builtin families and message of the error that the call raises; None without one."""
    try:
        function(*args, **named)
    except sg.SpmdError as error:
        families = {family.__name__ for family in (ValueError, TypeError, RuntimeError) if isinstance(error, family)}
        return type(error).__name__, families, str(error)


# -- (i) what all processes know alike -----------------------------------------------------------------------------

GRID_AXES = [
    ([2], "go from 0 to 1"),
    ([-1], "go from 0 to 1"),
    ([0, 0], "twice"),
    (["z"], "z"),
    (0, "list"),
    ([0.5], "0.5"),
]
TENSOR_AXES = [(-1, "negative"), (1.0, "whole number"), ("0", "whole number"), (None, "None"), (True, "True")]
DEVICES = [
    ([2], "go from 0 to 1"),
    ([-1], "go from 0 to 1"),
    ([0, 0], "must have 1"),
    ([], "must have 1"),
    (0, "list"),
    (["a"], "integers"),
]  # fmt: skip

ALIKE = [
    *[(op, {"grid_axes": axes}, "AxisError", text) for op in GOOD if op != "update_halo" for axes, text in GRID_AXES],
    *[
        (op, {name: axis}, "AxisError", text)
        for op, name in [
            ("all_gather", "gather_axis"),
            ("gather", "gather_axis"),
            ("all_slice", "slice_axis"),
            ("all_to_all", "split_axis"),
            ("all_to_all", "concat_axis"),
            ("scatter", "scatter_axis"),
            ("reduce_scatter", "scatter_axis"),
        ]
        for axis, text in TENSOR_AXES
    ],
    *[
        (op, {name: device}, "DeviceError", text)
        for op, name in [*((op, "root") for op in ROOTED), ("send", "destination"), ("recv", "source")]
        for device, text in DEVICES
    ],
    *[(op, {"root": None}, "DeviceError", "None") for op in ("scatter", "reduce")],
    ("send", {"destination": None}, "DeviceError", "None"),
    *[(op, {"scatter_dim": 0}, "AxisError", "exactly one") for op in ("scatter", "reduce_scatter")],
    *[(op, {"scatter_axis": ...}, "AxisError", "exactly one") for op in ("scatter", "reduce_scatter")],
    *[
        (op, {"reduction": reduction}, "ReductionError", text)
        for op in ("all_reduce", "reduce", "reduce_scatter")
        for reduction, text in [("median", "median"), ("SUM", "one of sum, max"), (None, "None"), (3, "callable")]
    ],
    *[(op, {"dtype": "no such"}, "DTypeError", "no such") for op in ("all_reduce", "reduce", "reduce_scatter")],
    ("shift", {"shift_axis": 1}, "AxisError", "not among grid_axes=[0]"),
    ("shift", {"shift_axis": 2}, "AxisError", "go from 0 to 1"),
    ("shift", {"shift_axis": -1}, "AxisError", "go from 0 to 1"),
    ("shift", {"shift_axis": "z"}, "AxisError", "z"),
    ("shift", {"shift_axis": None}, "AxisError", "None"),
    ("shift", {"offset": 0.5}, "AxisError", "whole number"),
    ("shift", {"offset": None}, "AxisError", "None"),
    *[
        (op, {"extents": extents}, "ShapeError", text)
        for op in ("all_gather", "gather", "all_to_all")
        for extents, text in [([1], "each of the 2 members"), ([1, -1], "-1"), (3, "3"), ([1, 2.0], "2.0")]
    ],
    ("update_halo", {"split_axes": [[2]]}, "AxisError", "go from 0 to 1"),
    ("update_halo", {"split_axes": [[-1]]}, "AxisError", "go from 0 to 1"),
    ("update_halo", {"split_axes": [[0, 0]]}, "AxisError", "twice"),
    ("update_halo", {"split_axes": [[0], [0]], "halo_sizes": [0] * 4}, "AxisError", "twice"),
    ("update_halo", {"halo_sizes": [1]}, "ShardingError", "has 1 entries; it must have 2"),
    ("update_halo", {"halo_sizes": [1, 1, 1, 1]}, "ShardingError", "has 4 entries; it must have 2"),
    ("update_halo", {"halo_sizes": [1, -1]}, "ShardingError", "-1"),
    ("update_halo", {"periodic": []}, "ShapeError", "periodic"),
    ("update_halo", {"periodic": "yes"}, "ShapeError", "periodic"),
    ("update_halo", {"global_shape": (4, 3), "sharded_dims_offsets": [0, 2]}, "ShardingError", "it must have 3"),
    ("update_halo", {"global_shape": (4, 3), "sharded_dims_offsets": [0, 3, 2]}, "ShardingError", "decrease"),
    ("update_halo", {"global_shape": (4, 3), "sharded_dims_offsets": [0, 1, 3]}, "ShardingError", "4"),
    ("update_halo", {"global_shape": (4, 3), "blocks": "thirds"}, "ShardingError", "thirds"),
]
BUILTIN = {"DTypeError": "TypeError", "MismatchError": "RuntimeError", "RequestError": "RuntimeError"}


def test_bad_arguments(spmd, path):
    """Each process raises by itself; nothing is sent, so one alone may do it and go on with the others."""

    def body():
        grid = sg.init_grid((2, 1), axis_names=("x", "y"))
        errors = []
        for op, bad, *_ in ALIKE:
            errors.append(caught(call, op, grid, **bad))
            if grid.rank == 0 and op != "recv":
                caught(call, op, grid, **bad)
            assert sg.all_reduce(1, grid, [0]) == 2
        return errors

    first, second = spmd(2, body)
    for (op, bad, kind, text), error, other in zip(ALIKE, first, second, strict=True):
        where = op, bad, error
        assert error is not None and error == other, where
        assert error[0] == kind and error[1] == {BUILTIN.get(kind, "ValueError")}, where
        assert text in error[2], where
        assert error[2].startswith(op), where


TENSOR_AXIS_TOO_LARGE = [
    ("all_gather", {"gather_axis": 2}),
    ("gather", {"gather_axis": 2}),
    ("all_slice", {"slice_axis": 2}),
    ("all_to_all", {"split_axis": 5}),
    ("all_to_all", {"concat_axis": 2}),
    ("scatter", {"scatter_axis": 2}),
    ("reduce_scatter", {"scatter_axis": 2}),
]


@pytest.mark.parametrize("op, bad", TENSOR_AXIS_TOO_LARGE)
@pytest.mark.parametrize("x, has", [(X, "dimensions 0 to 1"), (np.array(3.0), "no dimensions")], ids=["2-d", "0-d"])
def test_tensor_axis_beyond_the_array(spmd, path, op, bad, x, has):
    """Known from the arrays; a 0-d array has no axis at all."""

    def body():
        grid = sg.init_grid((2, 1))
        return caught(call, op, grid, x, **bad), int(sg.all_reduce(1, grid, [0]))

    for (kind, families, message), total in spmd(2, body):
        assert kind == "AxisError" and families == {"ValueError"} and total == 2
        assert message.startswith(f"{op}: ") and has in message


def test_grids_that_do_not_fit(spmd):
    def body():
        errors = [
            caught(sg.init_grid, (3,)),
            caught(sg.init_grid, (-1, -1)),
            caught(sg.init_grid, (0,)),
            caught(sg.init_grid, ()),
            caught(sg.init_grid, (3, -1)),
            caught(sg.init_grid, (2,), ranks=[0, 2]),
            caught(sg.init_grid, (2,), ranks=[1, 1]),
            caught(sg.all_reduce, 1, sg.Grid((2,)), [0]),
            caught(sg.all_reduce, 1, None, [0]),
        ]
        return errors, int(sg.all_reduce(1, sg.init_grid((2,)), [0]))

    for errors, total in spmd(2, body):
        assert {error and error[0] for error in errors} == {"GridError"} and total == 2


def test_a_closed_grid_and_a_process_outside(spmd):
    def body():
        part = sg.init_grid((1,), ranks=[1])
        outside = caught(sg.all_reduce, 1, part, [0])
        with sg.init_grid((2,)) as grid:
            sg.all_reduce(1, grid, [0])
        return outside, [caught(call, op, grid) for op in GOOD]

    (outside, closed), (inside, _) = spmd(2, body)
    assert inside is None and outside[0] == "GridError" and "process 0 is not in the 1 grid" in outside[2]
    for op, error in zip(GOOD, closed):
        assert error[0] == "GridError" and error[2].startswith(f"{op}: ") and "closed" in error[2]


# -- (ii) what one process alone knows -----------------------------------------------------------------------------

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


# -- different operations, different arguments ---------------------------------------------------------------------

MISMATCHES = {
    "operation": (("all_reduce", {}), ("all_gather", {})),
    "reduction": (("all_reduce", {"reduction": "sum"}), ("all_reduce", {"reduction": "max"})),
    "dtype": (("all_reduce", {"dtype": "f4"}), ("all_reduce", {"dtype": "f8"})),
    "root": (("broadcast", {"root": [0]}), ("broadcast", {"root": [1]})),
    "tensor axis": (("all_gather", {"gather_axis": 0}), ("all_gather", {"gather_axis": 1})),
    "extents": (("all_gather", {}), ("all_gather", {"extents": [2, 2]})),
    "offset": (("shift", {"offset": 1}), ("shift", {"offset": -1})),
    "rotate": (("shift", {}), ("shift", {"rotate": True})),
    "scatter and gather": (("scatter", {}), ("gather", {})),
    "one has an error too": (("all_reduce", {}), ("all_gather", {"x": None})),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_mismatch(spmd, path, name):
    """One table on all ranks, a line per rank: what it was in, with which arguments."""
    calls = MISMATCHES[name]

    def body():
        grid = sg.init_grid((2, 1))
        op, args = calls[grid.rank]
        return caught(call, op, grid, **args), int(sg.all_reduce(1, grid, [0]))

    first, second = spmd(2, body)
    assert first == second
    (kind, families, message), total = first
    assert kind == "MismatchError" and families == {"RuntimeError"} and total == 2
    lines = message.splitlines()[1:]
    for line, rank, (op, args) in zip(lines, range(2), calls, strict=True):
        assert line.strip().startswith(f"rank {rank} ({rank}, 0): {op}(grid_axes=[0]"), message
        for argument in args:
            assert argument == "x" or f"{argument}=" in line, message
    assert len({line.partition(":")[2] for line in lines}) == 2, message


def test_mismatch_of_many(spmd, path):
    """Three ranks, two operations; a started one and blocking ones."""

    def body():
        grid = sg.init_grid((3,))
        if grid.rank == 1:
            error = caught(lambda: sg.broadcast.start(X, grid, [0], [0]).wait())
        else:
            error = caught(sg.all_reduce, X, grid, [0])
        return error, int(sg.all_reduce(1, grid, [0]))

    results = spmd(3, body)
    assert results[0] == results[1] == results[2] and results[0][1] == 3
    kind, _, message = results[0][0]
    assert kind == "MismatchError"
    lines = [line.strip() for line in message.splitlines()[1:]]
    assert [line.split("(grid_axes")[0] for line in lines] == [
        "rank 0 (0,): all_reduce",
        "rank 1 (1,): broadcast.start",
        "rank 2 (2,): all_reduce",
    ]
