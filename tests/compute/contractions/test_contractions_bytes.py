"""Contractions move the words of the way that is taken, and it is the cheapest; panels keep to the memory."""

import numpy as np
import pytest
from support.compute.moving import bytes_and_result, bytes_sent

import spmd_grid as sg
from spmd_grid.compute.contractions import course
from spmd_grid.compute.contractions.choose import choose_scheme, schemes
from spmd_grid.compute.contractions.scheme import Held, price
from spmd_grid.functions.linear.contractions import matmul
from spmd_grid.grid.process_grid import ProcessGrid
from spmd_grid.links.model import LinkModel

ITEM = 8


def array(grid, n, m, axes, seed=0):
    return sg.from_function(lambda i, j: (3 * i + j * j + seed) % 7 - 3.0, (n, m), sg.Sharding(grid, axes), grid)


def total_moved(shape, m, k, n, of_a, of_b, of_c, options=None, **others):
    """The bytes that all processes together send in ``a @ b``, and whether every result is numpy's."""

    def body():
        grid = sg.init_grid(shape)
        a, b = array(grid, m, k, of_a), array(grid, k, n, of_b, 1)
        requested = None if of_c is None else sg.Sharding(grid, of_c, **(options or {}))
        sent, c = bytes_and_result(lambda a, b: sg.matmul(a, b, out_sharding=requested, **others), a, b)
        np.testing.assert_array_equal(c.to_global(), a.to_global() @ b.to_global())
        return sent

    return sum(sg.run_spmd(body, ranks=int(np.prod(shape))))


def test_stationary_result_gathers_rows_and_columns():
    """Every device of a 2 x 3 grid gets its rows of a and its columns of b, less what it holds."""
    m, k, n = 24, 12, 18
    moved = total_moved((2, 3), m, k, n, [[0], [1]], [[0], [1]], [[0], [1]])
    rows, columns = m * k * 3 - m * k, k * n * 2 - k * n
    assert moved == (rows + columns) * ITEM


def test_stationary_a_moves_b_and_scatters_the_result():
    """A large a stays: b is cut as a's columns already, and the partial sums are scattered along axis 1."""
    m, k, n = 48, 48, 6
    moved = total_moved((2, 2), m, k, n, [[0], [1]], [[1]], [[0, 1]])
    assert moved == m * n * (2 - 1) * ITEM  # of each of two contributions to a cell, one moves to its owner


def test_stationary_a_brings_b_along():
    """b is cut by axis 0 and needed by axis 1: the device (i, j) gets part j of b."""
    m, k, n = 96, 96, 4
    moved = total_moved((2, 2), m, k, n, [[0], [1]], [[0]], [[0, 1]])
    b_moves = 2 * (k // 2) * n  # devices (0, 1) and (1, 0) hold the other half of b
    assert moved == (b_moves + m * n) * ITEM


def test_stationary_b_moves_a():
    m, k, n = 4, 96, 96
    moved = total_moved((2, 2), m, k, n, [[], [0]], [[0], [1]], [[], [1, 0]])
    assert moved == m * n * ITEM


def test_partial_sums_left_partial_move_nothing():
    moved = total_moved((3,), 8, 30, 7, [[], [0]], [[0]], [], {"partial_axes": [0]})
    assert moved == 0


@pytest.mark.parametrize("of_c, factor", [([], 2), ([[0]], 1)])
def test_partial_sums_are_reduced_or_scattered(of_c, factor):
    """3 contributions to every cell: to scatter them moves 2 of them, and to replicate the sums 2 copies besides."""
    m, n = 30, 24  # small arrays would travel with their headers, to everyone
    assert total_moved((3,), m, 600, n, [[], [0]], [[0]], of_c) == factor * 2 * m * n * ITEM


def test_uneven_blocks_move_no_byte_more():
    m, k, n = 7, 11, 5
    moved = total_moved((2, 3), m, k, n, [[0], [1]], [[0], [1]], [[0], [1]])
    # Blocks of rows of a: 4, 3; each on 3 devices, of which one holds a cell.  Columns of b: 2, 2, 1 on 2 devices.
    assert moved == (m * k * 2 + k * n * 1) * ITEM


def test_plain_arrays_and_replicas_move_nothing():
    def body():
        grid = sg.init_grid((3,))
        a = array(grid, 7, 5, [[0]])
        sent = [bytes_sent(lambda a: a @ np.ones((5, 2)), a)]
        sent.append(bytes_sent(lambda a, b: a @ b, a, array(grid, 5, 4, [])))
        sent.append(bytes_sent(lambda a, b: np.einsum("ij,ij->i", a, b), a, array(grid, 7, 5, [[0]])))
        return sent

    assert sg.run_spmd(body, ranks=3) == [[0, 0, 0]] * 3


# -- the choice ------------------------------------------------------------------------------------------------------


def chosen(shape, m, k, n, of_a, of_b, of_c=None, limit=None, is_ahead=False):
    grid = sg.Grid(shape)
    a, b = np.broadcast_to(0.0, (m, k)), np.broadcast_to(0.0, (k, n))
    interface = matmul(a, b).interface
    held = tuple(Held(sg.Sharding(grid, axes), x.shape, x.dtype) for axes, x in ((of_a, a), (of_b, b)))
    requested = None if of_c is None else sg.Sharding(grid, of_c)
    arguments = interface, held, np.dtype(float), grid, requested, LinkModel()
    drafts = schemes(*arguments)
    priced = [price(each, interface, held, np.dtype(float), LinkModel()) for each in drafts]
    assert all(bound.seconds <= each.seconds for bound, each in zip(drafts, priced))
    return choose_scheme("matmul", *arguments, limit, is_ahead), priced


@pytest.mark.parametrize(
    "m, k, n, cuts",
    [
        (2000, 2000, 2000, ((0,), (1,), ())),  # as large: c stays
        (20000, 20000, 40, ((0,), (), (1,))),  # a is large
        (40, 20000, 20000, ((), (1,), (0,))),  # b is large
        (20000, 40, 20000, ((0,), (1,), ())),  # c is large
    ],
)
def test_the_largest_array_stays(m, k, n, cuts):
    scheme, others = chosen((4, 4), m, k, n, [[0], [1]], [[0], [1]], [[0], [1]])
    assert scheme.splits.axes == cuts
    assert scheme.seconds == min(each.seconds for each in others) and len(others) >= 4


def test_links_and_limits_decide():
    free, _ = chosen((4, 4), 512, 512, 512, [[0], [1]], [[0], [1]], [[0], [1]])
    assert free.panels is None and free.staging == 2 * 128 * 512 * ITEM
    tight, _ = chosen((4, 4), 512, 512, 512, [[0], [1]], [[0], [1]], [[0], [1]], free.staging // 4)
    assert tight.panels is not None and tight.staging <= free.staging // 4
    assert tight.seconds > free.seconds
    widths = [stop - start for start, stop in tight.panels.pieces]
    assert sum(widths) == 512 and all(start // 128 == (stop - 1) // 128 for start, stop in tight.panels.pieces)
    with pytest.raises(sg.ShardingError, match="at least [0-9]+"):
        chosen((4, 4), 512, 512, 512, [[0], [1]], [[0], [1]], [[0], [1]], 100)


# -- panels ----------------------------------------------------------------------------------------------------------

PANELS = {
    "blocks": ((2, 3), 14, 17, 11, [[0], [1]], [[0], [1]], [[0], [1]]),
    "square": ((2, 2), 16, 16, 16, [[0], [1]], [[0], [1]], [[0], [1]]),
    "rows": ((3,), 13, 17, 5, [[0]], [[0]], [[0]]),
    "columns": ((3,), 5, 17, 13, [[], [0]], [[], [0]], [[], [0]]),
    "three axes": ((2, 3), 12, 19, 9, [[0, 1]], [[0, 1]], [[0, 1]]),
    "other blocks": ((2, 3), 14, 17, 11, [[1], [0]], [[1], [0]], [[0], [1]]),
}


@pytest.mark.parametrize("is_ahead", [False, True])
@pytest.mark.parametrize("case", PANELS)
def test_panels(spmd, monkeypatch, case, is_ahead):
    """``is_ahead``: each panel travels while the product of the one before it is computed."""
    shape, m, k, n, of_a, of_b, of_c = PANELS[case]
    monkeypatch.setattr(course, "_sends_messages", lambda name, grid: is_ahead)

    def body():
        grid = sg.init_grid(shape)
        a, b = array(grid, m, k, of_a), array(grid, k, n, of_b, 1)
        requested, want = sg.Sharding(grid, of_c), a.to_global() @ b.to_global()
        plain, _ = chosen(shape, m, k, n, of_a, of_b, of_c)
        for limit in (plain.staging - 1, plain.staging // 2):
            found = sg.matmul(a, b, out_sharding=requested, memory_limit=limit)
            np.testing.assert_array_equal(found.to_global(), want)
            found = sg.einsum("ij,jk->ik", a, b.astype("f4"), out_sharding=requested, memory_limit=limit)
            np.testing.assert_array_equal(found.to_global(), want)

    spmd(int(np.prod(shape)), body)


@pytest.mark.parametrize("is_ahead", [False, True])
def test_panels_move_what_gathering_moves(monkeypatch, is_ahead):
    monkeypatch.setattr(course, "_sends_messages", lambda name, grid: is_ahead)
    m, k, n, limit = 24, 30, 18, 1600
    scheme, _ = chosen((2, 3), m, k, n, [[0], [1]], [[0], [1]], [[0], [1]], limit)
    assert scheme.panels is not None and len(scheme.panels.pieces) > 4
    moved = total_moved((2, 3), m, k, n, [[0], [1]], [[0], [1]], [[0], [1]], memory_limit=limit)
    assert moved == (m * k * 2 + k * n * 1) * ITEM


def test_panels_are_taken_from_blocks_that_refine_one_another():
    """7 steps cut by 3 devices for a and by 2 for b."""
    scheme, _ = chosen((2, 3), 60, 7, 60, [[0], [1]], [[0], [1]], [[0], [1]], 1500)
    borders = {start for start, _ in scheme.panels.pieces}
    assert {0, 3, 4, 6} <= borders


def test_two_panels_share_the_memory_of_one():
    plain, _ = chosen((2, 3), 60, 40, 60, [[0], [1]], [[0], [1]], [[0], [1]], 9000)
    ahead, _ = chosen((2, 3), 60, 40, 60, [[0], [1]], [[0], [1]], [[0], [1]], 9000, True)
    assert not plain.panels.is_ahead and ahead.panels.is_ahead
    assert max(plain.staging, ahead.staging) <= 9000
    widths = [max(stop - start for start, stop in each.panels.pieces) for each in (plain, ahead)]
    assert 1 < widths[1] < widths[0]
    tight, _ = chosen((2, 3), 60, 40, 60, [[0], [1]], [[0], [1]], [[0], [1]], 900, True)
    assert not tight.panels.is_ahead  # there is memory for one panel of one step


@pytest.mark.parametrize("is_ahead", [False, True])
def test_memory_beside_the_shards(monkeypatch, is_ahead):
    """A process allocates the result, and no more than the limit besides."""
    monkeypatch.setattr(course, "_sends_messages", lambda name, grid: is_ahead)
    taken, allocate = [0] * 4, ProcessGrid.allocate

    def counted(grid, shape, dtype, zeroed=False):
        taken[grid.rank] += int(np.prod(shape)) * np.dtype(dtype).itemsize
        return allocate(grid, shape, dtype, zeroed)

    def body():
        grid = sg.init_grid((2, 2))
        a, b = array(grid, 64, 64, [[0], [1]]), array(grid, 64, 64, [[0], [1]], 1)
        before = taken[grid.rank]
        found = sg.matmul(a, b, out_sharding=a.sharding, memory_limit=6000)
        beside = taken[grid.rank] - before - found.local.nbytes
        np.testing.assert_array_equal(found.to_global(), a.to_global() @ b.to_global())
        return beside

    monkeypatch.setattr(ProcessGrid, "allocate", counted)
    assert all(0 < beside <= 6000 for beside in sg.run_spmd(body, ranks=4))
