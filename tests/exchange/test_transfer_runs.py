"""Whether boxes lie in one run of a C-contiguous array, against brute force; packing and landing."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spmd_grid.exchange.transfer.flat_bytes import copy_views, flat_bytes, pack, receive_buffer
from spmd_grid.exchange.transfer.transfer import Receive, Send, Transfer, run_of
from spmd_grid.grid.box import Box


def boxes_in(shape):
    """Every box of an array of ``shape``, empty ones too."""
    sides = [[(a, b) for a in range(n + 1) for b in range(a, n + 1)] for n in shape]
    for pairs in product(*sides):
        yield Box(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))


def cells(shape, boxes):
    """The flat numbers of the cells of the boxes, one after the other."""
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    return [int(i) for box in boxes for i in np.ravel(numbers[box.slices()])]


def is_run(shape, boxes, run):
    """``run`` is right if it lists the cells; None is right if they are not consecutive."""
    found = cells(shape, boxes)
    if run is None:
        return found != list(range(found[0], found[0] + len(found)))
    return found == list(range(*run))


@pytest.mark.parametrize("shape", [(), (4,), (0,), (3, 3), (2, 1, 3), (1, 3, 1), (3, 0, 2), (2, 2, 2, 2)], ids=str)
def test_one_box(shape):
    for box in boxes_in(shape):
        assert is_run(shape, [box], run_of(shape, [box])), box


@pytest.mark.parametrize("shape", [(5,), (3, 2), (2, 1, 2)], ids=str)
def test_two_boxes(shape):
    everything = list(boxes_in(shape))
    for pair in product(everything, repeat=2):
        assert is_run(shape, pair, run_of(shape, pair)), pair


@given(st.data())
def test_many_boxes(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=4)))
    boxes = []
    for _ in range(data.draw(st.integers(0, 4))):
        sides = [sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in shape]
        boxes.append(Box(tuple(a for a, _ in sides), tuple(b for _, b in sides)))
    assert is_run(shape, boxes, run_of(shape, boxes))


def layouts(shape, dtype="i4"):
    """Arrays of one shape that lie differently in memory, filled with their cell numbers."""
    n = int(np.prod(shape))
    c = np.arange(n, dtype=dtype).reshape(shape)
    steps = np.zeros([2 * e for e in shape], dtype)[tuple(slice(None, None, 2) for _ in shape)]
    backwards = np.zeros(shape, dtype)[tuple(slice(None, None, -1) for _ in shape)]
    steps[...], backwards[...] = c, c
    return {"C": c, "F": c.copy(order="F"), "steps": steps, "backwards": backwards}


BOXES = {
    "all": [Box((0, 0), (4, 5))],
    "rows": [Box((1, 0), (2, 5)), Box((2, 0), (4, 5))],
    "columns": [Box((0, 1), (4, 3)), Box((0, 4), (4, 5))],
    "one cell": [Box((3, 4), (4, 5))],
    "empty": [Box((1, 1), (1, 3))],
    "none": [],
}


@pytest.mark.parametrize("memory", ["C", "F", "steps", "backwards"])
@pytest.mark.parametrize("boxes", BOXES.values(), ids=BOXES)
def test_pack_and_land(boxes, memory):
    x = layouts((4, 5))[memory]
    run = run_of(x.shape, boxes)
    packed = pack(x, boxes, run)
    assert packed.dtype == np.uint8 and packed.flags.c_contiguous
    assert packed.view("i4").tolist() == cells(x.shape, boxes)
    assert np.shares_memory(packed, x) == (run is not None and x.flags.c_contiguous and packed.size > 0)

    target = np.full_like(x, -1, subok=False)
    target = layouts((4, 5))[memory]
    target[...] = -1
    incoming, finish = receive_buffer(target, boxes, run)
    incoming[:] = packed
    assert (finish is None) == (run is not None and target.flags.c_contiguous)
    if finish is not None:
        finish()
    wanted = np.full((4, 5), -1)
    wanted.flat[cells(x.shape, boxes)] = cells(x.shape, boxes)
    assert np.array_equal(target, wanted)


@pytest.mark.parametrize("dtype", ["i1", "S3", "V7", "c16", "M8[s]", [("a", "i2"), ("b", "f8")], []], ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2)], ids=str)
def test_flat_bytes(shape, dtype):
    x = np.zeros(shape, dtype)
    flat = flat_bytes(x)
    assert flat.dtype == np.uint8 and flat.shape == (x.nbytes,)
    assert x.nbytes == 0 or np.shares_memory(flat, x)


@pytest.mark.parametrize("extent", [10, 400])  # by numpy, and by the kernels
def test_copy_views(extent):
    x = np.random.default_rng(1).random((extent, extent))
    targets = [
        np.zeros((extent, extent)),
        np.zeros((extent, extent), order="F"),
        np.zeros((extent, 2 * extent))[:, ::2],
    ]
    views = [x, x.T, x[::-1]]
    copy_views(list(zip(views, targets, strict=True)))
    for view, target in zip(views, targets, strict=True):
        assert np.array_equal(view, target)
    copy_views([])


def test_counts_and_runs_of_a_transfer():
    boxes = [Box((0, 0), (1, 3)), Box((1, 0), (3, 3))]
    transfer = Transfer(
        pattern="all_to_all",
        rank=0,
        size=3,
        source_shape=(3, 3),
        target_shape=(3, 3),
        sends=(Send(0, boxes[0]), Send(2, boxes[1])),
        receives=(Receive(1, boxes[0], boxes[0]),),
        volume=9,
    )
    assert transfer.send_counts == [3, 0, 6]
    assert transfer.receive_counts == [0, 3, 0]
    assert transfer.send_run == (0, 9)
    assert transfer.receive_run == (0, 3)
