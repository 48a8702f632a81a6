"""Refusals of what all processes know alike: each raises by itself, nothing is sent, the next operation works."""

import numpy as np
import pytest
from support.ops.refused_calls import BUILTIN, GOOD, ROOTED, X, call, caught

import spmd_grid as sg

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
    (["a"], "a list of"),
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
