"""Shifted slices read fresh halos: one exchange per version of an array, and never the values of an older one."""

import numpy as np
import pytest
from support.compute.updates import updates_and_bytes

import spmd_grid as sg


def second_differences(a):
    return a[1:-1] - 2 * a[:-2] + a[2:]


def line_of(grid, halo=(2, 2), n=13):
    return sg.from_function(lambda i: i * i * 1.0, (n,), sg.Sharding(grid, [[0]], halo_sizes=list(halo)), grid)


def test_a_chain_costs_one_exchange_per_version():
    """13 cells on 3 ranks, blocks of 5, 5 and 3; slices of 11 cells are cut into 4, 4 and 3."""

    def body():
        a = line_of(sg.init_grid((3,)))
        found = [updates_and_bytes(second_differences, a)]
        a.mark_dirty()
        found += [updates_and_bytes(second_differences, a) for _ in range(2)]
        a += 1.0
        found += [updates_and_bytes(second_differences, a)]
        return found

    found = sg.run_spmd(body, ranks=3)
    assert [[updates for updates, _ in each] for each in found] == [[0, 1, 0, 1]] * 3
    sent = [[0, 16, 0, 16], [0, 32, 0, 32], [0, 16, 0, 16]]  # two cells to each neighbour, once
    assert [[n for _, n in each] for each in found] == sent


def test_halos_that_are_absent_or_too_narrow_are_left_alone():
    """Blocks of 3 of 11 cells on 4 ranks; by the block rule, cells move by up to 3."""

    def body():
        grid = sg.init_grid((4,))
        found = []
        for halo in [(0, 0), (1, 1), (0, 3), (3, 0)]:
            a = line_of(grid, halo, 11)
            a.mark_dirty()
            found.append(updates_and_bytes(lambda a: a[3:], a)[0])
        return found

    # 8 cells from cell 3 on, in blocks of 2: devices hold 3-4, 5-6, 7-8, 9-10, of which device 0 owns none.
    assert sg.run_spmd(body, ranks=4) == [[0, 0, 1, 0]] * 4


WRITES = {
    "setitem": lambda a, x: (a.__setitem__(np.s_[3:9], 7.0), x.__setitem__(np.s_[3:9], 7.0)),
    "setitem of an array": lambda a, x: (a.__setitem__(np.s_[1:], a[:-1]), x.__setitem__(np.s_[1:], x[:-1].copy())),
    "mask": lambda a, x: (a.__setitem__(a > 9, -1.0), x.__setitem__(x > 9, -1.0)),
    "list": lambda a, x: (a.__setitem__([4, 5, -1], -2.0), x.__setitem__([4, 5, -1], -2.0)),
    "in place": lambda a, x: (a.__imul__(3), x.__imul__(3)),
    "out": lambda a, x: (np.add(a, 5, out=a), np.add(x, 5, out=x)),
    "out of a reduction": lambda a, x: (np.cumsum(a, axis=0, out=a), np.cumsum(x, out=x)),
    "mark_dirty": lambda a, x: (a.core.__iadd__(1), a.mark_dirty(), x.__iadd__(1)),
    "accumulate": lambda a, x: (accumulated(a), x.__setitem__(np.s_[:], a.to_global())),
    "reshard": lambda a, x: ((a * 2).reshard(a.sharding, out=a), x.__imul__(2)),
    "update_halo": lambda a, x: (a.core.__iadd__(1), a.mark_dirty(), a.update_halo(periodic=True), x.__iadd__(1)),
}


def accumulated(a):
    with sg.HaloExchange(a.grid, a.sharding, a.shape, a.dtype) as halo:
        halo.accumulate(a)


@pytest.mark.parametrize("write", WRITES)
def test_slices_after_a_write_have_the_new_values(spmd, write):
    def body():
        a = line_of(sg.init_grid((3,)))
        x = a.to_global()
        second_differences(a)
        WRITES[write](a, x)
        assert np.array_equal(a.to_global(), x)
        assert np.array_equal(second_differences(a).to_global(), second_differences(x))

    spmd(3, body)


LAYOUTS = [
    ((2, 3), [[0], [1]], [2, 2, 2, 2], {}),
    ((2, 3), [[1], [0]], [1, 3, 2, 0], {}),
    ((6,), [[], [0]], [9, 9], {}),
    ((2, 3), [[0, 1]], [3, 3], {"blocks": "balanced"}),
    ((2, 3), [[1]], [2, 2], {"sharded_dims_offsets": [[0, 4, 5, 11]]}),
]
KEYS = [
    np.s_[1:-1, 1:-1],
    np.s_[2:, :-2],
    np.s_[:-2, 2:],
    np.s_[1:, ::2],
    np.s_[::-1, 1:],
    np.s_[3, 1:],
    np.s_[4:4, 1:],
    np.s_[-3:, None, 2:],
    np.s_[:2],
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_values(spmd, layout):
    shape, axes, halos, options = layout

    def body():
        grid = sg.init_grid(shape)
        sharding = sg.Sharding(grid, axes, halo_sizes=halos, **options)
        x = np.arange(11.0 * 10).reshape(11, 10)
        x[2, 3] = np.nan
        stale = sg.from_local(np.full(sharding.local_shape(x.shape, grid.coords), -1.0), sharding, grid, x.shape)
        stale.core[...] = x[stale.global_slices]
        for a in (sg.from_global(x, sharding, grid), stale):
            for key in KEYS:
                found = a[key]
                assert np.array_equal(found.to_global(), x[key], equal_nan=True), key
                plain = sg.from_global(x, sg.Sharding(grid, axes, **options), grid)[key]
                assert found.sharding == plain.sharding, key

    spmd(6, body)


def test_all_that_fills_halos_makes_them_fresh():
    def body():
        grid = sg.init_grid((3,))
        s = sg.Sharding(grid, [[0]], halo_sizes=[2, 2])
        plain = sg.from_function(lambda i: i * 1.0, (13,), sg.Sharding(grid, [[0]]), grid)
        target = sg.zeros((13,), s, grid)
        fresh = [
            sg.from_global(np.arange(13.0), s, grid),
            sg.from_function(lambda i: i * 1.0, (13,), s, grid),
            plain.reshard(s),
            plain.reshard(s, out=target),
            sg.random.Generator(1).random((13,), s, grid),
            sg.zeros((13,), s, grid).update_halo(),
            sg.zeros((13,), s, grid).update_halo(periodic=True),
        ]
        local = np.zeros(s.local_shape((13,), grid.coords))
        stale = [sg.zeros((13,), s, grid), sg.empty((13,), s, grid), sg.from_local(local, s, grid, (13,))]
        for a in fresh:
            a[1:]  # in checking mode, compares the halos
        return [a.halos_are_fresh for a in fresh], [a.halos_are_fresh for a in stale]

    assert sg.run_spmd(body, ranks=3) == [([True] * 7, [False] * 3)] * 3


def test_writes_that_were_not_marked_are_found_in_checking_mode():
    def body():
        a = line_of(sg.init_grid((3,)))
        a.core[:] += a.grid.rank == 1  # one process alone
        with pytest.raises(sg.MismatchError, match="without mark_dirty"):
            a[1:]
        a.mark_dirty()
        assert np.array_equal(a[1:].to_global(), a.to_global()[1:])
        if a.grid.rank == 1:
            a.mark_dirty()
        with pytest.raises(sg.MismatchError, match="stale halos"):
            a[1:]

    sg.run_spmd(body, ranks=3)
