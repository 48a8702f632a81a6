"""Every drawing of the notes on resharding, with its numbers, and their open ends: tiles of a swap, and its cuts.

A drawing shows the contents of the devices as the tensor's numbers: rows of devices are divided by ``---``, columns by
``|``.  Where a drawing is wrong, the comment says so and the numbers are those of the definition of a sharding.
"""

import math
from itertools import pairwise, product

import numpy as np
import pytest

from spmd_grid.errors import PlanError
from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.direct import direct_steps
from spmd_grid.reshard.redistribute import Redistribution
from spmd_grid.reshard.steps import ALL_GATHER, ALL_TO_ALL, SLICE, SWAP, Step
from spmd_grid.reshard.verify import check_plan_steps, check_step


def numbers(rows, columns) -> np.ndarray:
    """The tensor as it is drawn: 11 is in the first row and column, 23 in the second row, third column."""
    return np.add.outer(10 * np.arange(1, rows + 1), np.arange(1, columns + 1))


def contents(drawing) -> list:
    """The devices of a drawing in the order of reading."""
    found = []
    for row in drawing.strip().split("---"):
        lines = [line.split("|") for line in row.strip().splitlines()]
        for column in zip(*lines, strict=True):
            found.append([[int(number) for number in cells.split()] for cells in column])
    return found


def at(grid_shape, split_axes, shape) -> Layout:
    return Layout(Sharding(Grid(grid_shape), split_axes), shape)


def blocks_of(layout, tensor) -> list:
    coords = [layout.grid.multi_index(device) for device in range(layout.grid.size)]
    return [tensor[layout.core_box(each).slices()] for each in coords]


def play(source, target, blocks) -> list:
    """What devices hold after one exchange of boxes, given what they hold before."""
    moved, result = Redistribution(source, target), []
    for device in range(target.grid.size):
        coords = target.grid.multi_index(device)
        wanted = target.core_box(coords)
        local = np.zeros(wanted.shape, int)
        kept = moved.kept_box(coords)
        pieces = [(piece.process, piece.box) for piece in moved.receives(coords)]
        for sender, box in pieces if kept is None else [*pieces, (device, kept)]:
            held = source.core_box(source.grid.multi_index(sender))
            local[box.relative_to(wanted.starts).slices()] = blocks[sender][box.relative_to(held.starts).slices()]
        result.append(local)
    return result


def as_lists(blocks) -> list:
    """Lines of numbers as in a drawing, also those of a tensor of one dimension."""
    return [np.atleast_2d(block).tolist() for block in blocks]


# name: (grid, tensor, source, target, the drawing before, the drawing after)
DRAWINGS = {
    # The title says "to sharding [[0, 1]]".  The tensor is drawn as 2x3, and sharded as six numbers in a row.
    "swap of two axes of one dimension": (
        (2, 3),
        numbers(2, 3).reshape(6),
        [[0, 1]],
        [[1, 0]],
        """
        11 | 12 | 13
        ---
        21 | 22 | 23
        """,
        """
        11 | 13 | 22
        ---
        12 | 21 | 23
        """,
    ),
    # Drawn as {11, 21}, {12, 22}, {13, 23}: what all_gather over axis 0 gives, and not the sharding [[1]].
    "unsplit of the major axis": (
        (2, 3),
        numbers(2, 3).reshape(6),
        [[0, 1]],
        [[1]],
        """
        11 | 12 | 13
        ---
        21 | 22 | 23
        """,
        """
        11 12 | 13 21 | 22 23
        ---
        11 12 | 13 21 | 22 23
        """,
    ),
    # Called 4x6, drawn as 2x6.
    "unsplit of the minor axis": (
        (2, 3),
        numbers(2, 6),
        [[], [0, 1]],
        [[], [0]],
        """
        11 | 12 | 13
        21 | 22 | 23
        ---
        14 | 15 | 16
        24 | 25 | 26
        """,
        """
        11 12 13 | 11 12 13
        21 22 23 | 21 22 23
        ---
        14 15 16 | 14 15 16
        24 25 26 | 24 25 26
        """,  # the same on every column of three, two of which are drawn
    ),
    "unsplit of the major axis beside another dimension": (
        (2, 2, 2),
        numbers(4, 8),
        [[0], [1, 2]],
        [[0], [2]],
        """
        11 12 | 13 14
        21 22 | 23 24
        ---
        15 16 | 17 18
        25 26 | 27 28
        ---
        31 32 | 33 34
        41 42 | 43 44
        ---
        35 36 | 37 38
        45 46 | 47 48
        """,
        """
        11 12 13 14 | 15 16 17 18
        21 22 23 24 | 25 26 27 28
        ---
        11 12 13 14 | 15 16 17 18
        21 22 23 24 | 25 26 27 28
        ---
        31 32 33 34 | 35 36 37 38
        41 42 43 44 | 45 46 47 48
        ---
        31 32 33 34 | 35 36 37 38
        41 42 43 44 | 45 46 47 48
        """,
    ),
    "swap of two dimensions on 2x3": (
        (2, 3),
        numbers(6, 6),
        [[0], [1]],
        [[1], [0]],
        """
        11 12 | 13 14 | 15 16
        21 22 | 23 24 | 25 26
        31 32 | 33 34 | 35 36
        ---
        41 42 | 43 44 | 45 46
        51 52 | 53 54 | 55 56
        61 62 | 63 64 | 65 66
        """,
        """
        11 12 13 | 31 32 33 | 51 52 53
        21 22 23 | 41 42 43 | 61 62 63
        ---
        14 15 16 | 34 35 36 | 54 55 56
        24 25 26 | 44 45 46 | 64 65 66
        """,
    ),
    # Before, "23" is drawn where 25 is.  After, grid axis 1 is drawn downwards; here it goes to the right as always.
    "swap of two dimensions on 2x6": (
        (2, 6),
        numbers(6, 6),
        [[0], [1]],
        [[1], [0]],
        """
        11 | 12 | 13 | 14 | 15 | 16
        21 | 22 | 23 | 24 | 25 | 26
        31 | 32 | 33 | 34 | 35 | 36
        ---
        41 | 42 | 43 | 44 | 45 | 46
        51 | 52 | 53 | 54 | 55 | 56
        61 | 62 | 63 | 64 | 65 | 66
        """,
        """
        11 12 13 | 21 22 23 | 31 32 33 | 41 42 43 | 51 52 53 | 61 62 63
        ---
        14 15 16 | 24 25 26 | 34 35 36 | 44 45 46 | 54 55 56 | 64 65 66
        """,
    ),
    "an axis to another dimension": (
        (3,),
        numbers(6, 6),
        [[0], []],
        [[], [0]],
        """
        11 12 13 14 15 16
        21 22 23 24 25 26
        ---
        31 32 33 34 35 36
        41 42 43 44 45 46
        ---
        51 52 53 54 55 56
        61 62 63 64 65 66
        """,
        """
        11 12 | 13 14 | 15 16
        21 22 | 23 24 | 25 26
        31 32 | 33 34 | 35 36
        41 42 | 43 44 | 45 46
        51 52 | 53 54 | 55 56
        61 62 | 63 64 | 65 66
        """,
    ),
    # After, "13 41" is drawn where 13 14 is.
    "the major axis to another dimension": (
        (2, 2, 2),
        numbers(4, 4),
        [[0], [1, 2]],
        [[0, 1], [2]],
        """
        11 | 12
        21 | 22
        ---
        13 | 14
        23 | 24
        ---
        31 | 32
        41 | 42
        ---
        33 | 34
        43 | 44
        """,
        """
        11 12 | 13 14
        ---
        21 22 | 23 24
        ---
        31 32 | 33 34
        ---
        41 42 | 43 44
        """,
    ),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings(name):
    grid_shape, tensor, before, after, drawn_before, drawn_after = DRAWINGS[name]
    source, target = (at(grid_shape, split_axes, tensor.shape) for split_axes in (before, after))
    blocks = blocks_of(source, tensor)
    wanted = contents(drawn_after)
    if name == "unsplit of the minor axis":
        wanted = [wanted[row * 2] for row in range(2) for _ in range(3)]
    assert as_lists(blocks) == contents(drawn_before)
    assert as_lists(play(source, target, blocks)) == wanted == as_lists(blocks_of(target, tensor))
    check_plan_steps(direct_steps(source, target), source, target)


def test_the_second_drawing_of_the_swap_on_2x3_is_its_first_one_turned():
    """There grid axis 0 goes to the right and axis 1 downwards, so that the tensor can be read."""
    turned = contents(
        """
        11 12 13 | 14 15 16
        21 22 23 | 24 25 26
        ---
        31 32 33 | 34 35 36
        41 42 43 | 44 45 46
        ---
        51 52 53 | 54 55 56
        61 62 63 | 64 65 66
        """
    )
    after = contents(DRAWINGS["swap of two dimensions on 2x3"][-1])
    assert [turned[3 * 0 + row * 2 + column] for column in range(2) for row in range(3)] == after


def test_gathering_the_major_axis_gives_what_is_drawn_and_is_refused():
    """The devices' numbers one after another, in the order of axis 0: right shapes, wrong cells."""
    tensor = numbers(2, 3).reshape(6)
    source, target = at((2, 3), [[0, 1]], (6,)), at((2, 3), [[1]], (6,))
    blocks = blocks_of(source, tensor)
    assert [np.concatenate([blocks[column], blocks[3 + column]]).tolist() for column in range(3)] == [
        [11, 21],
        [12, 22],
        [13, 23],
    ]
    with pytest.raises(PlanError, match="not consecutive"):
        check_step(Step(ALL_GATHER, source, target, (0,), (0,)), 0)
    swapped = at((2, 3), [[1, 0]], (6,))
    steps = [Step(SWAP, source, swapped, (0, 1), (0,)), Step(ALL_GATHER, swapped, target, (0,), (0,))]
    check_plan_steps(steps, source, target)


def test_devices_with_one_linear_index_swap_contents():
    """ "Swap contents on devices that have the same linear index in the 2 shardings": on even extents that is all."""
    source, target = at((2, 3), [[0, 1]], (6,)), at((2, 3), [[1, 0]], (6,))
    moved = Redistribution(source, target)
    for c0, c1 in product(range(2), range(3)):
        index = c1 * 2 + c0  # in the second sharding; in the first one it is c0 * 3 + c1
        assert [piece.process for piece in moved.receives((c0, c1))] == [index] * (index != c0 * 3 + c1)


# -- decompositions ----------------------------------------------------------------------------------------------------


def chain(grid_shape, shape, *stops) -> list:
    """[[0]], ("all_gather", axes, dims), [], ...: layouts, and what leads from each to the next."""
    layouts = [at(grid_shape, split_axes, shape) for split_axes in stops[::2]]
    return [Step(kind, *ends, axes, dims) for (kind, axes, dims), ends in zip(stops[1::2], pairwise(layouts))]


CHAINS = {
    "[[0],[1,2]] -> [[0],[2]]": chain(
        (2, 2, 2),
        (4, 8),
        [[0], [1, 2]],
        (SWAP, (1, 2), (1,)),
        [[0], [2, 1]],
        (ALL_GATHER, (1,), (1,)),
        [[0], [2]],
    ),
    # "grid_axes = [2] split_axis = 1 concat_axis = 0" is not the step wanted: it is over axis 1, split 0, concat 1.
    "[[0],[1,2]] -> [[0,1],[2]]": chain(
        (2, 2, 2),
        (4, 4),
        [[0], [1, 2]],
        (SWAP, (1, 2), (1,)),
        [[0], [2, 1]],
        (ALL_TO_ALL, (1,), (0, 1)),
        [[0, 1], [2]],
    ),
    "[[0],[]] -> [[],[0]]": chain((3,), (6, 6), [[0], []], (ALL_TO_ALL, (0,), (1, 0)), [[], [0]]),
    "[[0],[1]] -> [[1],[0]]": chain(
        (2, 3),
        (6, 6),
        [[0], [1]],
        (ALL_GATHER, (1,), (1,)),
        [[0], []],
        (ALL_TO_ALL, (0,), (1, 0)),
        [[], [0]],
        (SLICE, (1,), (0,)),
        [[1], [0]],
    ),
    "[[3,2],[],[0,1]] -> [[0],[1,2],[]]": chain(
        (2, 3, 4, 5),
        (120, 120, 120),
        [[3, 2], [], [0, 1]],
        (ALL_TO_ALL, (1,), (1, 2)),
        [[3, 2], [1], [0]],
        (ALL_TO_ALL, (2,), (1, 0)),
        [[3], [1, 2], [0]],
        (ALL_GATHER, (3,), (0,)),
        [[], [1, 2], [0]],
        (ALL_TO_ALL, (0,), (0, 2)),
        [[0], [1, 2], []],
    ),
    "[[]] -> [[1]]": chain((2, 3), (7,), [[]], (SLICE, (1,), (0,)), [[1]]),
    "[[0]] -> [[]]": chain((2, 3), (7,), [[0]], (ALL_GATHER, (0,), (0,)), [[]]),
    "[[0,1]] -> [[1,0]]": chain((2, 3), (7,), [[0, 1]], (SWAP, (0, 1), (0,)), [[1, 0]]),
}


@pytest.mark.parametrize("name", CHAINS)
def test_decompositions(name):
    """Each step is right at every device."""
    steps = CHAINS[name]
    check_plan_steps(steps, steps[0].source, steps[-1].target)


@pytest.mark.parametrize("name", [name for name in CHAINS if CHAINS[name][0].source.ndim > 1])
def test_decompositions_are_as_right_on_uneven_extents(name):
    def uneven(layout):
        return Layout(layout.sharding, tuple(extent + 1 for extent in layout.global_shape))

    steps = [Step(s.kind, uneven(s.source), uneven(s.target), s.grid_axes, s.dims) for s in CHAINS[name]]
    ends = steps[0].source, steps[-1].target
    if steps[0].source.grid.size > 100:
        for process in range(0, 120, 13):
            check_plan_steps(steps, *ends, process)
    else:
        check_plan_steps(steps, *ends)


def test_the_basis_entry_that_is_no_gather():
    """[[0, 1]] -> [[1]] by one all_gather along axis 0 is in the list of basis steps, and wrong."""
    (step,) = chain((2, 3), (6,), [[0, 1]], (ALL_GATHER, (0,), (0,)), [[1]])
    with pytest.raises(PlanError):
        check_step(step, 0)


def test_the_step_that_is_not_enough():
    """[[0],[1,2]] by all_to_all over axis 2 gives [[0,2],[1]], not [[0,1],[2]]."""
    for split_axes, right in (([[0, 2], [1]], True), ([[0, 1], [2]], False)):
        (step,) = chain((2, 2, 2), (4, 4), [[0], [1, 2]], (ALL_TO_ALL, (2,), (0, 1)), split_axes)
        if right:
            check_plan_steps([step], step.source, step.target)
        else:
            with pytest.raises(PlanError):
                check_plan_steps([step], step.source, step.target)


# -- K x L from [[0],[1]] to [[1],[0]] on M x N ------------------------------------------------------------------------


def ceildiv(a, b) -> int:
    return -(-a // b)


def tile(K, L, M, N, m, n, p, q):
    """Which cells d1(m, n) gives d2(p, q): ((i, j), (k, l), (u, v)) as ranges; None where there are none.

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
