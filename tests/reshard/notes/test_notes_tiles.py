"""The open ends of the notes on resharding: the tiles of a swap of two dimensions, and the period of its cuts."""

import math
from itertools import product

import pytest
from support.reshard.layouts import at

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.geometry.messages import Redistribution

# -- K x L from [[0],[1]] to [[1],[0]] on M x N ------------------------------------------------------------------------


def ceildiv(a, b) -> int:
    return -(-a // b)


def tile(K, L, M, N, m, n, p, q):
    """The cells that d1(m, n) gives d2(p, q): ((i, j), (k, l), (u, v)) as ranges; None where there are none.

    With S0 = K ceildiv M, S1 = L ceildiv N, T0 = K ceildiv N, T1 = L ceildiv M, in the tensor t[i, j]

        max(m*S0, q*T0) <= i < min((m+1)*S0, (q+1)*T0, K)
        max(n*S1, p*T1) <= j < min((n+1)*S1, (p+1)*T1, L)

    and d1(m, n)[k, l] = t[i, j] = d2(p, q)[u, v] where k = i - m*S0, l = j - n*S1, u = i - q*T0, v = j - p*T1.
    """
    S0, S1, T0, T1 = ceildiv(K, M), ceildiv(L, N), ceildiv(K, N), ceildiv(L, M)
    i = range(max(m * S0, q * T0), min((m + 1) * S0, (q + 1) * T0, K))
    j = range(max(n * S1, p * T1), min((n + 1) * S1, (p + 1) * T1, L))
    if not i or not j:
        return None

    def less(numbers, origin):
        return range(numbers.start - origin, numbers.stop - origin)

    return (i, j), (less(i, m * S0), less(j, n * S1)), (less(i, q * T0), less(j, p * T1))


def partners(K, L, M, N, p, q):
    """The devices (m, n) that d2(p, q) gets tiles from: found by division, nothing is searched."""
    S0, S1, T0, T1 = ceildiv(K, M), ceildiv(L, N), ceildiv(K, N), ceildiv(L, M)
    if q * T0 >= K or p * T1 >= L:
        return []
    ms = range(q * T0 // S0, (min((q + 1) * T0, K) - 1) // S0 + 1)
    ns = range(p * T1 // S1, (min((p + 1) * T1, L) - 1) // S1 + 1)
    assert len(ms) <= ceildiv(T0, S0) + 1 and len(ns) <= ceildiv(T1, S1) + 1
    return list(product(ms, ns))


SIZES = [*product([1, 2, 3, 4, 5], repeat=2), (7, 3), (2, 6), (6, 4)]


@pytest.mark.parametrize("K", [1, 2, 5, 6, 7, 12, 16, 27])
def test_tiles_of_a_swap(K):
    """The formula, for all pairs of devices, is what devices exchange."""
    for (M, N), L in product(SIZES, [1, 3, 6, 14, 23]):
        source, target = at((M, N), [[0], [1]], (K, L)), at((M, N), [[1], [0]], (K, L))
        moved = Redistribution(source, target)
        for p, q in product(range(M), range(N)):
            kept = moved.kept_box((p, q))
            found = {(piece.process // N, piece.process % N): piece.box for piece in moved.receives((p, q))}
            found |= {} if kept is None else {(p, q): kept}
            assert sorted(found) == partners(K, L, M, N, p, q)
            for (m, n), box in found.items():
                (i, j), given, taken = tile(K, L, M, N, m, n, p, q)
                assert (box.starts, box.stops) == ((i.start, j.start), (i.stop, j.stop))
                for there, layout, coords in ((given, source, (m, n)), (taken, target, (p, q))):
                    local = box.relative_to(layout.core_box(coords).starts)
                    assert list(zip(local.starts, local.stops)) == [(r.start, r.stop) for r in there]
        if M * N <= 9 and L in (3, 14):
            for m, n, p, q in product(range(M), range(N), range(M), range(N)):
                assert (tile(K, L, M, N, m, n, p, q) is not None) == ((m, n) in partners(K, L, M, N, p, q))


def test_index_maps():
    """t[13, 17] of 16 x 23 on 3 x 4 is d(2, 2)[1, 5].

    The second check of the notes takes j = 19 where L = 14, and finds device row 6 of 5; here it is j = 11.  Their map
    from d1 to d2 mixes sizes: i and j come from the first sharding, i = m*(K ceildiv M) + k, j = n*(L ceildiv N) + l.
    """
    first = at((3, 4), [[0], [1]], (16, 23))
    box = first.core_box((2, 2))
    assert (13 - box.starts[0], 17 - box.starts[1]) == (1, 5) and box.starts == (12, 12)
    second = at((5, 2), [[1], [0]], (27, 14))
    p, q = 11 // ceildiv(14, 5), 9 // ceildiv(27, 2)
    assert (p, q) == (3, 0)
    box = second.core_box((p, q))
    assert (9 - box.starts[0], 11 - box.starts[1]) == (9 % 14, 11 % 3) == (9, 2)
    for K, L, M, N in [(16, 23, 3, 4), (27, 14, 5, 2)]:
        before, after = (at((M, N), split, (K, L)) for split in ([[0], [1]], [[1], [0]]))
        for m, n in product(range(M), range(N)):
            box = before.core_box((m, n))
            for k, r in product(*map(range, box.shape)):
                i, j = m * ceildiv(K, M) + k, n * ceildiv(L, N) + r
                p, q = j // ceildiv(L, M), i // ceildiv(K, N)
                u, v = i % ceildiv(K, N), j % ceildiv(L, M)
                there = after.core_box((p, q))
                assert (there.starts[0] + u, there.starts[1] + v) == (i, j)
                assert u < there.shape[0] and v < there.shape[1]


@pytest.mark.parametrize("shape", [(6, 6), (12, 18), (30, 42)], ids=str)
def test_who_sends_whom_on_2x3(shape):
    """The drawing of tiles of K x L on 2x3, devices called 11 to 23: "12 21" goes from device 12 to device 21."""
    drawn = [
        ["11 11", "12 11", "12 21", "13 21"],
        ["11 12", "12 12", "12 22", "13 22"],
        ["21 12", "22 12", "22 22", "23 22"],
        ["21 13", "22 13", "22 23", "23 23"],
    ]
    moved = Redistribution(at((2, 3), [[0], [1]], shape), at((2, 3), [[1], [0]], shape))
    tiles = {}
    for p, q in product(range(2), range(3)):
        kept = moved.kept_box((p, q))
        pieces = [(piece.process, piece.box) for piece in moved.receives((p, q))]
        for sender, box in pieces if kept is None else [*pieces, (p * 3 + q, kept)]:
            tiles[box.starts] = f"{sender // 3 + 1}{sender % 3 + 1} {p + 1}{q + 1}"
    rows, columns = (sorted({starts[dim] for starts in tiles}) for dim in range(2))
    assert [[tiles[row, column] for column in columns] for row in rows] == drawn


# -- the period of the cuts --------------------------------------------------------------------------------------------


def pieces_of_line(n, n_source, n_target) -> list:
    """(source part, target part, cells) in order along a line of n cells cut into so many parts on either side."""
    source = Layout(Sharding(Grid((n_source,)), [[0]]), (n,))
    target = Layout(Sharding(Grid((n_target,), ranks=range(100, 100 + n_target)), [[0]]), (n,))
    moved = Redistribution(source, target)
    return [
        (piece.process, device, piece.box.shape[0]) for device in range(n_target) for piece in moved.receives((device,))
    ]


@pytest.mark.parametrize("n", [1, 5, 12, 30, 60, 97])
def test_number_of_cuts(n):
    """ceil(n/s) + ceil(n/t) - ceil(n/lcm(s, t)) pieces, s and t being the extents of the parts."""
    for n_source, n_target in product(range(1, 13), repeat=2):
        s, t = ceildiv(n, n_source), ceildiv(n, n_target)
        pieces = pieces_of_line(n, n_source, n_target)
        assert len(pieces) == ceildiv(n, s) + ceildiv(n, t) - ceildiv(n, math.lcm(s, t))
        assert sum(cells for _, _, cells in pieces) == n


def test_cuts_repeat():
    """After lcm(s, t) cells, with lcm/s parts of one side and lcm/t of the other; lcm/s + lcm/t - 1 pieces each."""
    for s, t in product(range(1, 9), repeat=2):
        period = math.lcm(s, t)
        n = 3 * period - 1  # the last period is cut off
        n_source, n_target = ceildiv(n, s), ceildiv(n, t)
        if (ceildiv(n, n_source), ceildiv(n, n_target)) != (s, t):
            continue  # so many parts have other extents
        pieces = pieces_of_line(n, n_source, n_target)
        in_period = period // s + period // t - 1
        for (i, j, cells), (i2, j2, cells2) in zip(pieces, pieces[in_period:-1]):
            assert (i2, j2, cells2) == (i + period // s, j + period // t, cells)
        assert len(pieces) == 3 * in_period - (s == 1 or t == 1)  # where the last cell is a piece
