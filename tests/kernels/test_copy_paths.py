"""Every way in which the copy kernel moves bytes, past the caches and not, against numpy on whole buffers.

A call streams all that it copies or nothing; a row of its own, as large as the caches, makes small boxes stream too.
"""

from functools import cache
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.protocols.recorded import reread_function
from support.same_bytes import same_bytes

from spmd_grid import kernels
from spmd_grid.kernels import reference
from spmd_grid.kernels.copy.tables import BY_LINES

WORDS = [1, 2, 4, 8, 16]
either_way = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])


@cache
def ballast():
    """A row that copies as much as is streamed, and the arrays it needs."""
    from spmd_grid.kernels.copy.tables import STREAM_FROM

    source, target = np.arange(2.0), np.empty((STREAM_FROM // 16, 2))
    return row_of(np.broadcast_to(source, target.shape), target), source, target


def row_of(source, target):
    s, t = kernels.flatten(source), kernels.flatten(target)
    return kernels.box_row(target.shape, t.itemsize, s.strides, s.address, t.strides, t.address)


def check(source, target, buffer, streamed=False, copy_boxes=None):
    """``target`` is a view of ``buffer``, which is compared as a whole."""
    before = buffer.copy()
    target[...] = source
    expected = buffer.copy()
    buffer[...] = before
    rows = [row_of(source, target), ballast()[0] if streamed else None]
    (copy_boxes or kernels.copy_boxes)(kernels.build_table(rows), 0, 0)
    assert same_bytes(buffer, expected)


def some_bytes(n, seed=0):
    return np.random.default_rng(seed).integers(0, 256, n, np.uint8)


def memory(n, misaligned=0):
    """Bytes from ``misaligned`` after the begin of a cache line."""
    whole = some_bytes(n + 128, n)
    start = -kernels.address_of(whole) % 64 + misaligned
    return whole[start : start + n]


def words(shape, width, misaligned=0, seed=0):
    """Random words."""
    n = int(np.prod(shape))
    array = memory(n * width, misaligned)
    array[...] = some_bytes(array.size, seed)
    return array.view(f"V{width}" if width > 8 else f"u{width}").reshape(shape)


@either_way
@pytest.mark.parametrize("misaligned", [(0, 0), (1, 3), (16, 16), (63, 40)], ids=str)
def test_runs_of_0_to_300_bytes(misaligned, streamed):
    for run in range(301):
        source, buffer = memory(5 * (run + 7), misaligned[0]), memory(5 * (run + 2), misaligned[1])
        source, buffer = source.reshape(5, -1), buffer.reshape(5, -1)
        check(source[:, 3 : 3 + run], buffer[:, 1 : 1 + run], buffer, streamed and run % 50 == 0)


def copy_by_lines(table, source, target):
    kernels.copy_table(kernels.address_of(table), table.shape[1], len(table), source, target, BY_LINES)


@pytest.mark.parametrize("run", [1000, 1024, 1025, 1087, 1279, 2048, 2049, 5000, 16384, 16500])
def test_long_runs_with_odd_heads_and_tails(run):
    for head in (*range(0, 65, 7), 1, 8, 16, 32, 63):
        source, buffer = memory(3 * (run + 70), 5 * head % 64), memory(3 * (run + 33) + head).reshape(-1)
        target = buffer[head:].reshape(3, -1)[:, :run]
        check(source.reshape(3, -1)[:, 9 : 9 + run], target, buffer, streamed=True)
        check(source.reshape(3, -1)[:, 9 : 9 + run], target, buffer, copy_boxes=copy_by_lines)


@either_way
@pytest.mark.parametrize("width", WORDS)
def test_transposed_words(width, streamed):
    edge = {1: 32, 2: 32, 4: 16, 8: 8, 16: 4}[width]
    sizes = [1, 2, 3, edge - 1, edge, edge + 1, 2 * edge + 1, 9 * edge + 3]
    for n0 in sizes:
        for n1 in sizes:
            for pad, misaligned in ((0, 0), (1, 0), (64 // width, 3 * width % 64), (5, 17)):
                source, buffer = (
                    words((n0, n1 + pad), width, misaligned, 1),
                    words((n1, n0 + pad), width, misaligned, 2),
                )
                check(source[:, :n1].T, buffer[:, :n0], buffer, streamed and n0 > edge)


@either_way
@pytest.mark.parametrize("misaligned", [0, 16, 24, 3])
@pytest.mark.parametrize("width", WORDS)
def test_rows_of_whole_lines_that_begin_anywhere(width, misaligned, streamed):
    """Their middles are streamed; first and last tiles overlap others."""
    n1, n0 = 70, 328 // width
    source, buffer = words((n0 + 3, n1 + 5), width, 0, 1), words((n1, 512 // width), width, misaligned, 2)
    check(source[3:, 5:].T, buffer[:, :n0], buffer, streamed)


@either_way
@pytest.mark.parametrize("axes", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize("width", WORDS)
def test_permuted_axes(width, axes, streamed):
    source = words((70, 37, 66), width).transpose(axes)
    buffer = words([n + 1 for n in source.shape], width)
    check(source, buffer[1:, 1:, :-1], buffer, streamed)
    check(source[::-1, ::2, ::-1], buffer[1:, 1 : 1 + len(source[0, ::2]), :-1][:, ::-1], buffer, streamed)


@either_way
@pytest.mark.parametrize("width", [3, 5, 12, 24, 40, 100])
def test_transposed_runs_that_are_no_words(width, streamed):
    source, buffer = memory(33 * 21 * width).reshape(33, 21, width), memory(21 * 34 * width).reshape(21, 34, width)
    check(source.transpose(1, 0, 2), buffer[:, 1:], buffer, streamed)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 12, 16, 24, 40, 100, 300, 5000])
@pytest.mark.parametrize("count", [1, 2, 7, 9, 10, 100, 1001])
def test_one_run_again_and_again(width, count):
    source, buffer = memory(6 * width, 1).reshape(6, 1, width)[::2], memory(3 * (count + 1) * width, 3)
    buffer = buffer.reshape(3, count + 1, width)
    check(np.broadcast_to(source, (3, count, width)), buffer[:, 1:], buffer)
    check(np.broadcast_to(source[:1], (3, count, width))[:, ::-1], buffer[::-1, :-1], buffer)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_streamed_boxes_of_any_strides(data):
    width = data.draw(st.sampled_from([1, 2, 4, 8, 12, 16]))
    shape = data.draw(st.lists(st.sampled_from([1, 2, 5, 17, 40, 64, 130]), min_size=1, max_size=3))
    axes = data.draw(st.permutations(range(len(shape))))
    steps = data.draw(st.lists(st.sampled_from([1, 1, 1, 2, -1]), min_size=len(shape), max_size=len(shape)))
    offsets = data.draw(st.tuples(st.integers(0, 63), st.integers(0, 63)))

    source = words([shape[axis] * abs(steps[axis]) for axis in axes], width, offsets[0], 1)
    source = source.transpose(np.argsort(axes))[tuple(slice(None, None, step) for step in steps)]
    buffer = words([n + 1 for n in shape], width, offsets[1], 2)
    for how in ({"streamed": True}, {"copy_boxes": copy_by_lines}):
        check(source, buffer[tuple(slice(1, None) for _ in shape)], buffer, **how)


def large(shape, axes):
    from spmd_grid.kernels.copy.tables import STREAM_FROM

    source = np.arange(np.prod(shape), dtype=float).reshape(shape)
    assert source.nbytes > STREAM_FROM
    return source.transpose(axes)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((1500, 1601), (0, 1)), ((1500, 1601), (1, 0)), ((1536, 1600), (1, 0)), ((130, 128, 160), (2, 0, 1))],
)
def test_what_is_larger_than_the_caches(shape, axes):
    source = large(shape, axes)
    buffer = np.zeros([n + 1 for n in source.shape])
    check(source, buffer[tuple(slice(1, None) for _ in source.shape)], buffer)
    check(source, buffer[tuple(slice(1, None) for _ in source.shape)], buffer, copy_boxes=reference.copy_boxes)
    aligned = words(source.shape, 8)
    check(source.view("u8"), aligned, aligned)


def test_calls_that_stream_or_do_not_whatever_the_size():
    """The size of the whole result decides whether it is streamed, also where a call copies a part of it."""
    assert kernels.streams_for(1 << 20) != kernels.streams_for(1 << 25) == 1
    source = memory(3 * 4096, 1)
    for n_bytes in (1 << 20, 1 << 25):
        target = np.zeros(source.size + 100, np.uint8)
        table = kernels.build_table([row_of(source, target[37:-63])])
        kernels.copy_table(kernels.address_of(table), table.shape[1], 1, 0, 0, kernels.streams_for(n_bytes))
        assert (target[37:-63] == source).all() and not target[:37].any() and not target[-63:].any()


@pytest.mark.parametrize("width", [4, 8, 24])
def test_runs_that_move_within_their_page(width):
    """Runs around the length from which memcpy may be slow, from the begin of a page to 0 to 4095 bytes after it."""
    for cells in (8192 // width - 1, 8192 // width + 1, 70_000 // width):
        source = memory(cells * width + 8192, 0)
        source = source[-kernels.address_of(source) % 4096 :][: cells * width]
        whole = memory(cells * width + 3 * 4096, 0)
        buffer = whole[-kernels.address_of(whole) % 4096 :]
        for moved in (0, 1, 8, 15, 16, 17, 64, 4095):
            check(source, buffer[moved : moved + len(source)], buffer)


def test_no_memcpy_to_an_address_a_cell_further_in_its_page():
    """Some processors take 12 times as long for long ones of those to 1 to 15 bytes further in the page."""
    from spmd_grid.kernels.copy import boxes

    [cell] = boxes._rows.py_func.__closure__  # the copy of one run
    lines, moves = [], []
    words = {"move": lambda *run: moves.append(run), "copy_lines": lambda *run: lines.append(run)}
    copy = reread_function(cell.cell_contents.py_func, {**vars(boxes), **words})
    page, n = 1 << 20, boxes.MEMCPY_MOST + 5000
    for moved in (1, 8, 15, 4096 + 8, -4096 + 8):
        copy(page, page + moved, n)
    assert lines == [(page, page + moved, n) for moved in (1, 8, 15, 4104, -4088)] and not moves
    for moved in (0, 16, 4095, -8):
        copy(page, page + moved, n)
    copy(page, page + 8, boxes.CLOSE_FROM - 1)
    assert len(lines) == 5 and sum(size for *_, size in moves) == 4 * n + boxes.CLOSE_FROM - 1
