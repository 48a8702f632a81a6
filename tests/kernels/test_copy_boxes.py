"""Box copies against numpy.copyto and against the slow twin, on whole buffers, so that a stray write shows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.same_bytes import same_bytes

from spmd_grid import kernels
from spmd_grid.errors import DTypeError, OutputError
from spmd_grid.kernels import reference

DTYPES = [
    np.dtype(t)
    for t in ("i1", "i2", "V3", "f4", "V5", "f8", "V12", "c16", "V24", "V40", "V70", "V300", "i1,f8", "(3,)f4")
]


def table_of(source, target):
    s, t = kernels.flatten(source), kernels.flatten(target)
    return kernels.build_table([kernels.box_row(target.shape, t.itemsize, s.strides, 0, t.strides, 0)])


def random_bytes(shape, dtype, seed):
    count = int(np.prod(shape, dtype=int)) * dtype.itemsize
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8).view(dtype).reshape(shape)


def check(source, target, buffer):
    """Copy by numpy, by the twin and by the kernel; ``target`` is a view of ``buffer``, compared as a whole."""
    before = buffer.copy()
    np.copyto(target, source, casting="no")
    expected = buffer.copy()
    table = table_of(source, target)
    assert kernels.table_bytes(table) == target.nbytes
    for copy_boxes in (reference.copy_boxes, kernels.copy_boxes):
        buffer[...] = before
        copy_boxes(table, kernels.address_of(source), kernels.address_of(target))
        assert same_bytes(buffer, expected)


def strided(shape, order, steps, pads, repeated, dtype, seed):
    """A buffer and a view of it with ``shape``: its axes in the memory's ``order``, strided, reversed, repeated."""
    spans = [1 if r else n and (n - 1) * abs(k) + 1 for n, k, r in zip(shape, steps, repeated, strict=True)]
    buffer = random_bytes([spans[d] + pads[d] for d in order], dtype, seed)
    view = buffer.transpose(np.argsort(order))
    for d, (span, step) in enumerate(zip(spans, steps, strict=True)):
        view = np.moveaxis(view, d, 0)[:span]
        view = np.moveaxis(view[:: abs(step)] if step > 0 else view[:: abs(step)][::-1], 0, d)
    return buffer, np.broadcast_to(view, shape, subok=False) if any(repeated) else view


@st.composite
def copies(draw):
    shape = draw(st.lists(st.integers(0, 6), max_size=5).filter(lambda s: np.prod(s) < 3000))
    dtype = draw(st.sampled_from(DTYPES[:-1]))
    ndim = len(shape)

    def side(may_repeat):
        many = {"min_size": ndim, "max_size": ndim}
        return (
            draw(st.permutations(range(ndim))),
            draw(st.lists(st.sampled_from([1, 1, 1, -1, 2, -3]), **many)),
            draw(st.lists(st.sampled_from([0, 0, 1, 2]), **many)),
            draw(st.lists(st.booleans() if may_repeat else st.just(False), **many)),
            dtype,
            draw(st.integers(0, 99)),
        )

    return shape, side(draw(st.booleans())), side(False)


@given(copies())
@settings(max_examples=400, deadline=None)
def test_any_strides(case):
    shape, source_side, target_side = case
    _, source = strided(shape, *source_side)
    buffer, target = strided(shape, *target_side)
    check(source, target, buffer)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_transposed(dtype):
    dtype = np.dtype(f"V{dtype.itemsize}")
    buffer = random_bytes((75, 131), dtype, 1)
    check(random_bytes((131, 75), dtype, 2).T, buffer, buffer)


@pytest.mark.parametrize("size", [*range(1, 68), 127, 128, 129, 255, 256, 257, 1000])
def test_every_run_length(size):
    buffer = random_bytes((7, size + 3), np.dtype("u1"), 1)
    check(random_bytes((7, size + 9), np.dtype("u1"), 2)[:, 5 : 5 + size], buffer[:, 1 : 1 + size], buffer)


@pytest.mark.parametrize("axes", [(2, 1, 0), (2, 0, 1), (1, 2, 0), (1, 0, 2), (0, 2, 1), (0, 1, 2)])
@pytest.mark.parametrize("dtype", ["i1", "i2", "f4", "f8", "c16", "V12"])
def test_permuted_axes(axes, dtype):
    source = random_bytes((70, 19, 33), np.dtype(dtype), 3).transpose(axes)
    buffer = random_bytes([n + 1 for n in source.shape], np.dtype(dtype), 4)
    check(source, buffer[1:, 1:, :-1], buffer)


def test_fortran_order_on_both_sides_is_one_run():
    source, target = np.ones((4, 5, 6), order="F"), np.zeros((4, 5, 6), order="F")
    assert table_of(source, target)[:, 4:].tolist() == [[960, 1, 1]]


def test_reversed_on_both_sides_is_one_run():
    source, target = np.arange(30.0).reshape(5, 6), np.zeros((5, 6))
    check(source[::-1, ::-1], target[::-1, ::-1], target)
    assert table_of(source[::-1, ::-1], target[::-1, ::-1])[:, 4:].tolist() == [[240, 1, 1]]


def test_scalars_and_empty_boxes():
    target = np.zeros(())
    check(np.array(7.0), target, target)
    assert kernels.box_row((3, 0), 8, (8, 8), 0, (8, 8), 0) is None
    empty = kernels.build_table([None])
    assert empty.shape == (0, 7)
    assert kernels.table_bytes(empty) == 0
    kernels.copy_boxes(empty, 0, 0)


def test_rows_of_different_rank_share_a_table():
    source, target = np.arange(600.0).reshape(6, 10, 10), np.zeros((6, 10, 10))
    boxes = [np.s_[:2], np.s_[2:4, 1:9:2, 3:7], np.s_[4, 3], np.s_[5, ::2, ::3], np.s_[5, 9, 9:]]
    s, t, expected = kernels.flatten(source), kernels.flatten(target), target.copy()
    rows = []
    for box in boxes:
        expected[box] = source[box]
        offset = kernels.address_of(target[box]) - t.address
        rows.append(kernels.box_row(target[box].shape, 8, source[box].strides, offset, target[box].strides, offset))
    kernels.copy_boxes(kernels.build_table(rows), s.address, t.address)
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize(
    "copy_boxes_between", [reference.copy_boxes_between, lambda *a: kernels.copy_boxes_between(*a)]
)
def test_one_call_gathers_from_many_bases(copy_boxes_between):
    sources = [np.arange(12.0).reshape(3, 4) + 100 * i for i in range(3)]
    targets = [np.zeros((4, 9)), np.zeros((3, 9), order="F")]
    rows = [
        kernels.box_row((3, 3), 8, sources[i].strides, 8, targets[j].strides, 3 * i * targets[j].strides[1], i, j)
        for i in range(3)
        for j in range(2)
    ]
    addresses = [np.array([kernels.address_of(x) for x in side]) for side in (sources, targets)]
    copy_boxes_between(kernels.build_table(rows), *addresses)
    expected = np.concatenate([s[:, 1:] for s in sources], axis=1)
    np.testing.assert_array_equal(targets[0][:3], expected)
    np.testing.assert_array_equal(targets[1], expected)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_address_of_any_view(data):
    _, view = strided(
        [4, 3], [1, 0], data.draw(st.sampled_from([(1, -2), (-1, 1), (3, 2)])), [1, 2], [False] * 2, DTYPES[5], 0
    )
    assert kernels.address_of(view) == view.__array_interface__["data"][0]
    assert kernels.flatten(view) == (view.ctypes.data, view.strides, 8)


def test_refusals():
    with pytest.raises(OutputError, match="target stride of 0 over extent 3"):
        kernels.box_row((3,), 8, (8,), 0, (0,), 0)
    with pytest.raises(DTypeError, match="Python objects"):
        kernels.flatten(np.array([None]))
    with pytest.raises(AttributeError, match="no attribute 'paste'"):
        _ = kernels.paste
