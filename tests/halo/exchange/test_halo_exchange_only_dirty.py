"""HaloExchange: updates of what has changed alone."""

import random

import numpy as np
import pytest
from support.halo.small_plans import check_line, line

import spmd_grid as sg


def test_what_is_not_dirty_is_not_copied(in_any_order, path):
    """A halo cell that is written over here stays so until the owner marks its array.

    The update after the one that sent it may send it once more: neighbours have not said yet that they have it.
    """

    def body():
        grid, halo = line(path)
        u = sg.zeros((6,), halo.layout.sharding, grid, "i8")
        low, high = grid.rank > 0, grid.rank < 2
        check_line(grid, halo, u, 1, lambda x: halo.update(x, only_dirty=True))
        halo.update(u, only_dirty=True)
        for owner in range(3):
            before = False
            for marked in (False, True, True, False, False, True, False, False):
                u.local[0] = u.local[-1] = -5
                if marked and grid.rank == owner:
                    u.core[:] += 1
                    u.mark_dirty()
                mine = u.core.copy()
                halo.update(u, only_dirty=True)
                for cell, here, side in (0, low, -1), (-1, high, 1):
                    its_own = here and grid.rank + side == owner
                    if marked or not before:
                        assert (u.local[cell] != -5) == (marked and its_own)
                    else:
                        assert u.local[cell] == -5 or its_own
                assert np.array_equal(u.core, mine)
                before = marked
        halo.update(u)  # all of it, dirty or not
        assert (u.local[0] != -5, u.local[-1] != -5) == (low, high)
        halo.close()

    in_any_order(3, body)


def test_some_fields_are_dirty(spmd, path):
    """Each field of each rank by itself, as chance has it; local arrays are always sent."""

    def body():
        grid = sg.init_grid((4,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, (8,), ["i8", "f4", "i2"], True, n_fields=3, path=path) as halo:
            fields = [sg.zeros((8,), sharding, grid, "i8"), sg.zeros((8,), sharding, grid, "f4"), np.zeros(4, "i2")]
            chance = random.Random(4)  # the same on all ranks
            value = np.zeros((4, 3), int)
            before = [[True] * 3 for _ in range(4)]
            halo.update(*fields, only_dirty=True)
            for _ in range(40):
                dirty = [[chance.random() < 0.4 for _ in range(3)] for _ in range(4)]
                for f, field in enumerate(fields):
                    local = getattr(field, "local", field)
                    for rank in range(4):
                        value[rank, f] += dirty[rank][f] * chance.randrange(1, 9)
                    local[1:-1] = value[grid.rank, f]
                    local[0] = local[-1] = -5
                    if f < 2 and dirty[grid.rank][f]:
                        field.mark_dirty()
                halo.update(*fields, only_dirty=True)
                for f, field in enumerate(fields):
                    local = getattr(field, "local", field)
                    for cell, rank in (0, (grid.rank - 1) % 4), (-1, (grid.rank + 1) % 4):
                        if f == 2 or dirty[rank][f]:
                            assert local[cell] == value[rank, f]
                        elif before[rank][f]:
                            assert local[cell] in (value[rank, f], -5)
                        else:
                            assert local[cell] == -5
                before = dirty

    spmd(4, body)


def test_dirty_and_plain_updates_mixed(spmd, path):
    """Ranks need not agree on whether they name what has changed."""

    def body():
        grid, halo = line(path)
        u = sg.zeros((6,), halo.layout.sharding, grid, "i8")
        for step in range(20):
            u.mark_dirty()
            if (step + grid.rank) % 3:
                check_line(grid, halo, u, step, lambda x: halo.update(x, only_dirty=True))
            else:
                check_line(grid, halo, u, step)
        halo.close()

    spmd(3, body)


def test_arrays_by_turns_are_dirty_each_by_itself(spmd, path):
    def body():
        grid, halo = line(path)
        arrays = [sg.zeros((6,), halo.layout.sharding, grid, "i8") for _ in range(3)]
        for step in range(12):
            u = arrays[step % 3]
            if step < 3 or step % 2:
                u.mark_dirty()
                check_line(grid, halo, u, step, lambda x: halo.update(x, only_dirty=True))
            else:
                u.local[0] = -5
                halo.update(u, only_dirty=True)
                assert u.local[0] == -5
        new = sg.zeros((6,), halo.layout.sharding, grid, "i8")  # never seen: all of it
        check_line(grid, halo, new, 99, lambda x: halo.update(x, only_dirty=True))
        halo.close()

    spmd(3, body)


@pytest.mark.parametrize("between", [0, 1, 4])
def test_what_a_refused_update_did_not_bring_is_still_dirty(in_any_order, path, between):
    """Rank 0 makes rank 1 refuse, which thus does not get what rank 2 has sent: it must come with the next update.

    ``between``: updates of another array that end well in the meantime.
    """

    def body():
        grid, halo = line(path)
        u, other = (sg.zeros((6,), halo.layout.sharding, grid, "i8") for _ in range(2))
        results = []
        for turn in range(2):
            u.core[:] = 10 * turn + grid.rank + 1
            u.mark_dirty()
            if grid.rank < 2:
                with pytest.raises(sg.ShapeError):
                    halo.update(u if grid.rank else np.zeros(9, int), only_dirty=True)
            else:
                halo.update(u, only_dirty=True)
            for step in range(between):
                other.mark_dirty()
                check_line(grid, halo, other, step, lambda x: halo.update(x, only_dirty=True))
            halo.update(u, only_dirty=True)
            results.append(u.local.tolist())
        halo.close()
        return results

    assert in_any_order(3, body) == [
        [[0, 1, 1, 2], [0, 11, 11, 12]],
        [[1, 2, 2, 3], [11, 12, 12, 13]],
        [[2, 3, 3, 0], [12, 13, 13, 0]],
    ]


def test_what_was_missed_is_sent_once_more_and_not_for_ever(in_any_order, path):
    """Rank 1 misses what rank 2 has sent.  A few updates later it has it, and has said so: then it is left out."""

    def body():
        grid, halo = line(path)
        u = sg.zeros((6,), halo.layout.sharding, grid, "i8")
        if grid.rank < 2:
            with pytest.raises(sg.ShapeError):
                halo.update(u if grid.rank else np.zeros(9, int), only_dirty=True)
        else:
            halo.update(u, only_dirty=True)
        for _ in range(3):
            halo.update(u, only_dirty=True)
        u.local[0] = u.local[-1] = -5
        halo.update(u, only_dirty=True)
        halo.close()
        return u.local.tolist()

    assert in_any_order(3, body) == 3 * [[-5, 0, 0, -5]]


def test_dirty_with_boundaries_and_its_own_neighbour(spmd, path):
    """Cells that move within the own array, and constants, are always put."""

    def body():
        grid = sg.init_grid((2, 1))
        sharding = sg.Sharding(grid, [[0], [1]], halo_sizes=[1, 1, 1, 1])
        with sg.HaloExchange(grid, sharding, (4, 3), "i8", [False, True], boundary=7, path=path) as halo:
            u = sg.from_function(lambda i, j: 10 * i + j, (4, 3), sharding, grid)
            for _ in range(3):
                u.local[:, 0] = -5
                halo.update(u, only_dirty=True)
                assert u.local[1:3, 0].tolist() == u.core[:, -1].tolist()
                assert (u.local[0 if grid.rank == 0 else -1] == 7).all()

    spmd(2, body)
