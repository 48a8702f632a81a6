"""Any redistribution that hypothesis can draw, against a global numpy array."""

import math

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from support.reshard.reshard_oracle import check_moves, check_partial_moves, lacks, side, size

from spmd_grid.grid.box import Box
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.geometry import replicas
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.reshard.planner.steps import EXCHANGE, Step
from spmd_grid.reshard.verify.exchanges import check_exchange, covers_once
from spmd_grid.reshard.verify.steps import check_plan_steps

MOST_PROCESSES = 30


@st.composite
def grids(draw, ranks=False):
    shape = []
    for _ in range(draw(st.integers(1, 4))):
        shape.append(draw(st.integers(1, max(1, min(5, 16 // math.prod(shape))))))
    listed = None
    if ranks and draw(st.booleans()):
        listed = draw(st.permutations(range(MOST_PROCESSES)))[: math.prod(shape)]
    return Grid(tuple(draw(st.permutations(shape))), ranks=listed)


@st.composite
def layouts(draw, grid, shape, partial=False, halos=True):
    """Any roles of the axes, any block rule, any halos."""
    split, partial_axes = [[] for _ in shape], []
    for axis in draw(st.permutations(range(grid.ndim))):
        role = draw(st.integers(-2 if partial else -1, len(shape) - 1))
        if role >= 0:
            split[role].append(axis)
        elif role == -2:
            partial_axes.append(axis)
    sharded = [dim for dim, axes in enumerate(split) if axes]
    options = {"partial_axes": partial_axes}
    if halos and draw(st.booleans()):
        options["halo_sizes"] = [(draw(st.integers(0, 4)), draw(st.integers(0, 4))) for _ in sharded]
    rule = draw(st.sampled_from(["ceil", "balanced", "offsets"]))
    if rule == "offsets":
        rows = []
        for dim in sharded:
            inner = math.prod(grid.shape[axis] for axis in split[dim]) - 1
            starts = draw(st.lists(st.integers(0, shape[dim]), min_size=inner, max_size=inner))
            rows.append([0, *sorted(starts), shape[dim]])
        options["sharded_dims_offsets"] = rows
    else:
        options["blocks"] = rule
    return Layout(Sharding(grid, split, **options), shape)


@st.composite
def redistributions(draw, one_grid=True, partial=False, halos=True):
    source = draw(grids(ranks=not one_grid))
    target = source if one_grid else draw(grids(ranks=True))
    shape = tuple(draw(st.lists(st.integers(0, 13), max_size=3)))
    return Redistribution(
        draw(layouts(source, shape, partial)),
        draw(layouts(target, shape, partial, halos)),
        itemsize=draw(st.sampled_from([1, 8])),
        node_size=draw(st.integers(1, 6)),
    )


@pytest.fixture(autouse=True, scope="module", params=[1 << 16, 8], ids=["whole", "shared"])
def share_bytes(request):
    """Drawn arrays are small: boxes are cut among copies only where this is said to be worth it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(replicas, "_SHARE_BYTES", request.param)
        yield


def check(moved) -> None:
    """By the oracle; by the package's own check; and no more than the lower bound."""
    if moved.hidden is None:
        moves = check_moves(moved)
        event("something moves" if moves else "nothing moves")
        assert sum(moves.values()) == sum(lacks(moved.source, moved.target))
    else:
        check_partial_moves(moved)
    processes = {*side(moved.source).processes, *side(moved.target).processes}
    for process in processes:
        check_exchange(moved, process)


@given(redistributions())
def test_on_one_grid(moved):
    check(moved)


@given(redistributions(one_grid=False))
def test_between_grids(moved):
    check(moved)


@given(redistributions(partial=True))
def test_partial_sums_on_one_grid(moved):
    check(moved)


@given(redistributions(one_grid=False, partial=True))
def test_partial_sums_between_grids(moved):
    check(moved)


@given(redistributions(one_grid=False, halos=False), st.data())
def test_there_and_back(moved, data):
    """Two steps that chain: the second begins where the first ends."""
    source, middle = moved.source, moved.target
    back = data.draw(layouts(source.grid, source.global_shape))
    steps = [Step(EXCHANGE, source, middle), Step(EXCHANGE, middle, back)]
    check_plan_steps(steps, source, back)
    check_moves(Redistribution(middle, back))


@given(redistributions(one_grid=False))
def test_every_holder_could_serve(moved):
    """Loads add up to the work, whoever serves; nobody sends what it does not hold, nor to itself."""
    source = side(moved.source)
    loads = [sum(piece.box.size for piece in moved.sends(at)) for at in source.coords]
    assert sum(loads) == sum(lacks(moved.source, moved.target))
    for device, at in enumerate(source.coords):
        assert source.processes[device] not in [piece.process for piece in moved.sends(at)]
        assert not size(source.cores[device]) <= 0 < loads[device]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_covers_once_is_what_counting_says(shape, data):
    """Boxes that tile, or do not: found out by writing into an array."""
    whole = Box.from_shape(shape)
    boxes = [whole]
    for _ in range(data.draw(st.integers(0, 6))):
        box = boxes.pop(data.draw(st.integers(0, len(boxes) - 1)))
        dim = data.draw(st.integers(0, len(shape) - 1))
        edge = data.draw(st.integers(box.starts[dim], box.stops[dim]))
        halves = [(box.starts[dim], edge), (edge, box.stops[dim])]
        for start, stop in halves:
            if start < stop:
                starts, stops = list(box.starts), list(box.stops)
                starts[dim], stops[dim] = start, stop
                boxes.append(Box(tuple(starts), tuple(stops)))
    change = data.draw(st.sampled_from(["none", "drop", "twice", "move"]))
    if change != "none":
        box = boxes.pop(data.draw(st.integers(0, len(boxes) - 1)))
        if change == "twice":
            boxes += [box, box]
        elif change == "move":
            moved = box.shift([data.draw(st.integers(-1, 1)) for _ in shape]).intersect(whole)
            boxes += [] if moved.is_empty else [moved]
    count = np.zeros(shape, int)
    for box in boxes:
        count[box.slices()] += 1
    assert covers_once(boxes, whole) == bool((count == 1).all())
