"""Halos that a HaloExchange has updated are fresh for the slices that follow: no second exchange."""

from random import Random

import numpy as np
import pytest
from support.compute.updates import updates_and_bytes

import spmd_grid as sg

SHAPE = (13, 7)
LAYOUTS = [((3,), [[0]], [2, 2]), ((3,), [[], [0]], [9, 9]), ((3, 1), [[0], [1]], [1, 2, 0, 0])]
OPTIONS = [{}, {"periodic": True}, {"boundary": lambda local, outside: local.__setitem__(outside, -9.0)}]


def squares(s, grid):
    return sg.from_function(lambda i, j: i * i + 10.0 * j, SHAPE, s, grid)


def differences(a):
    return a[1:] - 2 * a[:-1], a[:, 1:] - a[:, :-1]


def check(a, x):
    for found, wanted in zip(differences(a), differences(x)):
        assert np.array_equal(found.to_global(), wanted)


@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "periodic", "function"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_no_second_exchange(layout, options):
    shape, axes, halos = layout

    def body():
        grid = sg.init_grid(shape)
        s = sg.Sharding(grid, axes, halo_sizes=halos)
        a = squares(s, grid)
        x = a.to_global()
        with sg.HaloExchange(grid, s, SHAPE, "float64", **options) as halo:
            for step in range(5):
                a.core[...] *= 2.0
                x *= 2.0
                if step == 3:
                    halo.start(a)
                    halo.wait()
                else:
                    halo.update(a)
                assert a.halos_are_fresh
                assert updates_and_bytes(differences, a)[0] == 0
                check(a, x)

    sg.run_spmd(body, ranks=3)


def test_exchanges_that_leave_cells_out():
    """Without corners in two dimensions, and of changed fields only, slices update halos themselves."""

    def body():
        grid = sg.init_grid((3, 1))
        s = sg.Sharding(grid, [[0], [1]], halo_sizes=[1, 1, 1, 1])
        a = squares(s, grid)
        with sg.HaloExchange(grid, s, SHAPE, "float64", corners=False) as halo:
            a.mark_dirty()
            halo.update(a)
            before = updates_and_bytes(differences, a)[0]
        with sg.HaloExchange(grid, s, SHAPE, "float64") as halo:
            a.mark_dirty()
            halo.update(a, only_dirty=True)
            return before, updates_and_bytes(differences, a)[0]

    assert sg.run_spmd(body, ranks=3) == [(1, 1)] * 3


def test_updates_that_no_slice_follows_cost_nothing_more():
    """After a few, notes end: the next slice updates halos itself, and from then on updates are noted again."""

    def body():
        grid = sg.init_grid((3,))
        s = sg.Sharding(grid, [[0]], halo_sizes=[2, 2])
        a, b = squares(s, grid), squares(s, grid)
        found = []
        with sg.HaloExchange(grid, s, SHAPE, "float64") as halo:
            for _ in range(4):
                halo.update(a)
            found += [list(halo._plan.follow_ups), a.halos_are_fresh]
            b.core[...] += 1.0
            halo.update(b)  # a new array
            found += [b.halos_are_fresh, updates_and_bytes(differences, b)[0], updates_and_bytes(differences, a)[0]]
            halo.update(a)
            found.append(updates_and_bytes(differences, a)[0])
            for _ in range(4):
                halo.update(a.local)
            found.append(list(halo._plan.follow_ups))
        return found

    assert sg.run_spmd(body, ranks=3) == [[[], False, True, 0, 1, 0, []]] * 3


def test_map_overlap_updates_its_fields():
    def body():
        grid = sg.init_grid((3,))
        a = squares(sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), grid)
        a.mark_dirty()

        def kernel(u, out, starts, stops):
            cells = tuple(map(slice, starts, stops))
            out[cells] = u[cells]

        copied = sg.map_overlap(kernel, a, 1)
        return updates_and_bytes(differences, a)[0], updates_and_bytes(differences, copied)[0]

    assert sg.run_spmd(body, ranks=3) == [(0, 1)] * 3


@pytest.mark.parametrize("seed", range(3))
def test_random_programs(spmd, seed):
    """Two arrays, two plans and update_halo in any order; a write that is not marked is followed by an update.

    Processes decide alike whether to exchange, although each takes views of its own.
    """

    def body():
        grid = sg.init_grid((3,))
        if grid.process.recorder is not None:
            grid.process.recorder.check = False
        s = sg.Sharding(grid, [[0]], halo_sizes=[2, 2])
        arrays = [squares(s, grid), squares(s, grid)]
        values = [a.to_global() for a in arrays]
        halo = sg.HaloExchange(grid, s, SHAPE, "float64")
        both = sg.HaloExchange(grid, s, SHAPE, "float64", n_fields=2)
        draw, own = Random(seed), Random(seed * 3 + grid.rank)
        for _ in range(80):
            n = draw.randrange(2)
            a, x = arrays[n], values[n]
            if own.random() < 0.1:
                own.choice([a.core, a.local])
            match draw.randrange(8):
                case 0:
                    a += 1.0
                    x += 1.0
                case 1:
                    a.core[...] *= 0.5
                    x *= 0.5
                    a.mark_dirty()
                case 2 | 3:
                    if draw.random() < 0.5:
                        a.core[...] += 2.0
                        x += 2.0
                    halo.update(a)
                case 4:
                    for each, y in zip(arrays, values):
                        each.core[...] -= 1.0
                        y -= 1.0
                    both.update(*arrays)
                case 5:
                    a.core[...] += 0.25
                    x += 0.25
                    a.update_halo()
                case 6:
                    arrays[n] = a * 1.0 if draw.random() < 0.2 else sg.from_global(x, s, grid)
                    if arrays[n].sharding != s:
                        arrays[n] = arrays[n].reshard(s)
                case _:
                    check(a, x)
        halo.close()
        both.close()
        check(arrays[0], values[0])

    spmd(3, body)
