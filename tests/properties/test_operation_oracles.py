"""Every operation equals its global numpy oracle, for random arguments."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.properties.property_oracle import Oracle, assert_same, group_of
from support.properties.property_strategies import (
    MOVED,
    NUMERIC,
    cases,
    in_memory,
    tensor_shapes,
    vary_extents,
    with_fixtures,
)

import spmd_grid as sg

KINDS = ["sum", "max", "min", "product", "average", "bitwise_and", "bitwise_or", "bitwise_xor"]


def first_of_two(a, b):
    """Associative and not commutative: the order of combination shows."""
    return a


def last_of_two(a, b):
    return b


def in_group(draw, case) -> list:
    """A device of the group: coordinates in the order of the axes."""
    return [draw(st.integers(0, case.grid_shape[axis] - 1)) for axis in case.axes]


def run_case(spmd, draw, name, case, args, takes=lambda rank: True) -> None:
    """Runs one operation by one of its forms and compares with the oracle of its name."""
    form = draw(st.sampled_from(["call", "call", "start", "out"]))
    out_memory = draw(st.sampled_from(["C", "F", "steps", "backwards"]))
    twice = draw(st.booleans())
    xs = case.arrays()
    expected = getattr(Oracle(case.grid_shape, case.axes), name)(xs, **args)
    operation = getattr(sg, name)

    def body():
        grid = sg.init_grid(case.grid_shape)
        x = xs[grid.rank] if takes(grid.rank) else None
        before = None if x is None else x.tobytes()
        wanted = expected[grid.rank]
        for _ in range(1 + twice):  # the second time finds everything prepared
            out = None
            if form == "out" and wanted is not None:
                out = in_memory(np.zeros_like(wanted, order="C"), out_memory)
            if form == "start":
                result = operation.start(x, grid, case.axes, **args).wait()
            else:
                result = operation(x, grid, case.axes, **args, out=out)
            assert out is None or result is out
        is_unchanged = x is None or x.tobytes() == before
        assert is_unchanged
        assert x is None or result is None or not np.shares_memory(result, x)
        assert_same(result, wanted)

    with sg.forced_path(case.path):
        spmd(case.n_ranks, body)


@with_fixtures
@given(st.data())
def test_all_gather(spmd, most_ranks, data):
    case = data.draw(cases(most_ranks))
    axis = data.draw(st.integers(0, len(case.shapes[0]) - 1))
    if data.draw(st.booleans()):
        vary_extents(data.draw, case, axis)
    run_case(spmd, data.draw, "all_gather", case, {"gather_axis": axis})


@with_fixtures
@given(st.data())
def test_gather(spmd, most_ranks, data):
    case = data.draw(cases(most_ranks))
    axis = data.draw(st.integers(0, len(case.shapes[0]) - 1))
    vary_extents(data.draw, case, axis)
    run_case(spmd, data.draw, "gather", case, {"gather_axis": axis, "root": in_group(data.draw, case)})


@with_fixtures
@given(st.data())
def test_all_slice(spmd, most_ranks, data):
    case = data.draw(cases(most_ranks))
    axis = data.draw(st.integers(0, len(case.shapes[0]) - 1))
    vary_extents(data.draw, case, data.draw(st.integers(0, len(case.shapes[0]) - 1)))
    run_case(spmd, data.draw, "all_slice", case, {"slice_axis": axis})


@with_fixtures
@given(st.data())
def test_all_to_all(spmd, most_ranks, data):
    case = data.draw(cases(most_ranks))
    split, concat = (data.draw(st.integers(0, len(case.shapes[0]) - 1)) for _ in range(2))
    if data.draw(st.booleans()):
        vary_extents(data.draw, case, concat)
    run_case(spmd, data.draw, "all_to_all", case, {"split_axis": split, "concat_axis": concat})


@with_fixtures
@given(st.data())
def test_broadcast_and_scatter(spmd, most_ranks, data):
    name = data.draw(st.sampled_from(["broadcast", "scatter"]))
    case = data.draw(cases(most_ranks, least_ndim=0 if name == "broadcast" else 1))
    root = in_group(data.draw, case)
    args = {"root": root}
    if name == "scatter":
        args["scatter_axis"] = data.draw(st.integers(0, len(case.shapes[0]) - 1))
    place = int(np.ravel_multi_index(root, [case.grid_shape[a] for a in case.axes])) if root else 0
    roots = {group_of(case.grid_shape, case.axes, rank)[place] for rank in range(case.n_ranks)}
    ignored = data.draw(st.booleans())  # off the root there may be an array, too
    run_case(spmd, data.draw, name, case, args, takes=lambda rank: ignored or rank in roots)


@with_fixtures
@given(st.data())
def test_reductions(spmd, most_ranks, data):
    name = data.draw(st.sampled_from(["all_reduce", "reduce", "reduce_scatter"]))
    case = data.draw(cases(most_ranks, NUMERIC, least_ndim=1 if name == "reduce_scatter" else 0))
    reduction = data.draw(st.sampled_from([*KINDS, first_of_two, last_of_two]))
    dtype = None
    kind = np.dtype(case.dtype).kind
    if str(reduction).startswith("bitwise") and kind not in "biu":
        dtype = None if kind == "c" else "i4"
        reduction = reduction if dtype else "sum"
    elif data.draw(st.booleans()):
        dtype = data.draw(st.sampled_from(["c16"] if kind == "c" else ["f4", "f8", "c8"]))
        dtype = None if str(reduction).startswith("bitwise") else dtype
    args = {"reduction": reduction, "dtype": dtype}
    if name == "reduce":
        args["root"] = in_group(data.draw, case)
    if name == "reduce_scatter":
        args["scatter_axis"] = data.draw(st.integers(0, len(case.shapes[0]) - 1))
    if dtype == "i4" and kind == "f":  # NaN has no integer
        case.memory, case.shapes = "C", [()] * case.n_ranks if name != "reduce_scatter" else [(0,)] * case.n_ranks
        args |= {"scatter_axis": 0} if name == "reduce_scatter" else {}
        case.dtype = "i2"
    run_case(spmd, data.draw, name, case, args)


@with_fixtures
@given(st.data())
def test_shift(spmd, most_ranks, data):
    case = data.draw(cases(most_ranks, least_axes=1, least_ndim=0))
    case.shapes = [data.draw(tensor_shapes(0)) for _ in case.shapes]  # shapes travel: no two need be equal
    axis = data.draw(st.sampled_from(case.axes))
    args = {"shift_axis": axis, "offset": data.draw(st.integers(-7, 7)), "rotate": data.draw(st.booleans())}
    if np.dtype(case.dtype).kind in "iufcb":
        args["fill"] = data.draw(st.sampled_from([None, 0, 1]))
    run_case(spmd, data.draw, "shift", case, args)


@with_fixtures
@given(st.data())
def test_send_and_recv(spmd, most_ranks, data):
    """A random list of messages within every group, sent before they are received."""
    case = data.draw(cases(most_ranks, least_ndim=0))
    sizes = [case.grid_shape[axis] for axis in case.axes]
    n = math.prod(sizes)
    messages = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=6))
    anybody = data.draw(st.booleans())
    groups = [group_of(case.grid_shape, case.axes, rank) for rank in range(case.n_ranks)]
    shapes = [data.draw(tensor_shapes(0)) for _ in messages]
    case.shapes = shapes
    values = case.arrays()

    def device(place):
        return [int(i) for i in np.unravel_index(place, sizes)] if sizes else []

    def body():
        grid = sg.init_grid(case.grid_shape)
        me = groups[grid.rank].index(grid.rank)
        sent = [
            sg.send.start(value, grid, case.axes, destination=device(to))
            for value, (source, to) in zip(values, messages, strict=True)
            if source == me
        ]
        received = []
        for source, to in messages:
            if to == me:
                received.append(sg.recv(grid, case.axes, source=None if anybody else device(source)))
        for request in sent:
            request.wait()
        wanted = [value for value, (_, to) in zip(values, messages, strict=True) if to == me]
        if anybody:  # in any order of senders
            found, wanted = (sorted((x.dtype.str, x.shape, str(x.tolist())) for x in xs) for xs in (received, wanted))
            assert found == wanted
        else:
            for result, value in zip(received, wanted, strict=True):
                assert_same(result, value)

    with sg.forced_path(case.path):
        spmd(case.n_ranks, body)


def test_dtypes_are_what_they_are_called():
    assert all(not np.dtype(dtype).hasobject for dtype in MOVED)
