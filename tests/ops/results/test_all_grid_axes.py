"""grid_axes=None: every operation runs over all axes of the grid, in order."""

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid import (
    all_gather,
    all_reduce,
    all_slice,
    all_to_all,
    broadcast,
    gather,
    recv,
    reduce,
    reduce_scatter,
    scatter,
    send,
    shift,
)

ROOT = [1, 2]
# Operation, and its arguments after grid_axes.
CALLS = {
    "all_gather": (all_gather, {"gather_axis": 1}),
    "all_slice": (all_slice, {"slice_axis": 1}),
    "all_to_all": (all_to_all, {"split_axis": 1, "concat_axis": 0}),
    "broadcast": (broadcast, {"root": ROOT}),
    "gather": (gather, {"gather_axis": 0, "root": ROOT}),
    "scatter": (scatter, {"scatter_axis": 1, "root": ROOT}),
    "all_reduce": (all_reduce, {"reduction": "max"}),
    "reduce": (reduce, {"reduction": "sum", "root": ROOT}),
    "reduce_scatter": (reduce_scatter, {"reduction": "sum", "scatter_axis": 1}),
    "shift": (shift, {"shift_axis": 1, "offset": 1, "fill": -1}),
}
# Those in which every argument after grid_axes has a default.
DEFAULTED = ["all_reduce", "reduce", "reduce_scatter", "scatter"]


def own_array(grid):
    return 100 * grid.rank + np.arange(14).reshape(2, 7)


def shown(result):
    return None if result is None else (result.dtype.str, result.tolist())


@pytest.mark.parametrize("name", CALLS)
def test_none_is_all_axes(name):
    operation, options = CALLS[name]

    def body():
        grid, found = sg.init_grid((2, 3), axis_names=("x", "y")), []
        x = own_array(grid)
        for axes in ([0, 1], None, None):  # the last is looked up
            with operation.plan(grid, x.shape, x.dtype, axes, **options) as plan:
                found.append(
                    [
                        shown(operation(x, grid, axes, **options)),
                        shown(operation.start(x, grid, axes, **options).wait()),
                        shown(plan.run(x)),
                        plan.describe(),
                    ]
                )
        return found

    for explicit, *others in sg.run_spmd(body, ranks=6):
        assert others == [explicit, explicit]


@pytest.mark.parametrize("name", DEFAULTED)
def test_none_is_the_default_where_it_can_be(name):
    operation, options = CALLS[name]

    def body():
        grid = sg.init_grid((2, 3))
        x = own_array(grid)
        plan = operation.plan(grid, x.shape, x.dtype, **options)
        return [
            shown(result)
            for result in (
                operation(x, grid, [0, 1], **options),
                operation(x, grid, **options),
                operation.start(x, grid, **options).wait(),
                plan.run(x),
            )
        ]

    for explicit, *others in sg.run_spmd(body, ranks=6):
        assert others == [explicit] * 3


def test_members_that_pass_none_match_those_that_list_the_axes():
    def body():
        grid = sg.init_grid((2, 2))
        return sg.all_reduce(grid.rank + 1, grid, None if grid.rank % 2 else [0, 1]).item()

    assert sg.run_spmd(body, ranks=4) == [10] * 4


def test_messages():
    def body():
        grid = sg.init_grid((2, 3))
        found = []
        to_plan = send.plan(grid, (2, 7), int, None, [1, 0])
        from_plan = recv.plan(grid, (2, 7), int, source=[0, 2])
        for _ in range(2):
            if grid.coords == (0, 2):
                send(own_array(grid), grid, None, [1, 0])
                send.start(own_array(grid), grid, None, [1, 0]).wait()
                send(own_array(grid), grid, [0, 1], [1, 0])
                to_plan.run(own_array(grid))
            if grid.coords == (1, 0):
                found += [recv(grid), recv.start(grid, source=[0, 2]).wait(), recv(grid, None, [0, 2]), from_plan.run()]
        return len(found), all(np.array_equal(each, own_array(grid) - 100) for each in found)

    assert sg.run_spmd(body, ranks=6) == [(0, True)] * 3 + [(8, True)] + [(0, True)] * 2


def test_a_grid_that_is_none_is_refused_as_before():
    for call in (
        lambda: sg.all_reduce(1, None),
        lambda: sg.recv(None),
        lambda: sg.all_slice(np.ones(2), None, None, 0),
    ):
        with pytest.raises(sg.GridError, match="bound to processes"):
            call()


def test_shift_axis_must_exist():
    with pytest.raises(sg.AxisError, match="shift"):
        sg.run_spmd(lambda: sg.shift(1, sg.init_grid((2,)), None, shift_axis=1, offset=1), ranks=2)
