"""Slices that move nothing read the memory of their source, and keep their values whatever is written afterwards."""

import gc
import weakref

import numpy as np
import pytest

import spmd_grid as sg

N = 24


def array_of(grid, n=N):
    return sg.from_function(lambda i: i + 1.0, (n,), sg.Sharding(grid, [[0]], halo_sizes=[2, 2]), grid)


def shares(a, b):
    return np.may_share_memory(a.stored, b.stored)


WRITES = {
    "setitem": lambda a: a.__setitem__(np.s_[5:], 0),
    "setitem of a list": lambda a: a.__setitem__([1, 2, -1], 0),
    "setitem of a mask": lambda a: a.__setitem__(a > 3, 0),
    "in place": lambda a: a.__iadd__(1),
    "out": lambda a: np.multiply(a, 2, out=a),
    "out of a composite": lambda a: np.cumsum(a, axis=0, out=a),
    "out with a condition": lambda a: np.negative(a, out=a, where=a > 4),
    "reshard": lambda a: (a * 2).reshard(a.sharding, out=a),
    "core": lambda a: (a.core.__iadd__(1), a.mark_dirty()),
    "local": lambda a: (a.local.__iadd__(1), a.mark_dirty()),
    "local, later": lambda a: later(a),
    "halo exchange": lambda a: exchanged(a),
    "accumulate": lambda a: exchanged(a, "accumulate"),
    "update_halo": lambda a: (written_alone(a), a.update_halo()),
    "update_halo, periodic": lambda a: (written_alone(a), a.update_halo(periodic=True)),
    "map_overlap": lambda a: sg.map_overlap(computed, array_of(a.grid), 1, region=np.s_[1:], out=a),
    "run_plan": lambda a: planned(a),
}


def later(a):
    view = a.local
    b = a[2:-2]  # of an array that the program has a view of: a copy at once
    assert not shares(a, b)
    view += 1
    a.mark_dirty()
    a.update_halo()


def exchanged(a, method="update"):
    with sg.HaloExchange(a.grid, a.sharding, a.shape, a.dtype) as halo:
        getattr(halo, method)(a)
        b = a[2:-2]
        assert not shares(a, b)
        want = b.to_global()
        if a.grid.rank == 0:
            a.core[...] = -1
        a.mark_dirty()
        halo.update(a)
        assert np.array_equal(b.to_global(), want)


def written_alone(a):
    """One process writes, and only its neighbours' halos tell them so."""
    if a.grid.rank == 1:
        a.core[...] = -5


def computed(v, out, starts, stops):
    out[starts[0] : stops[0]] = v[starts[0] - 1 : stops[0] - 1]


def planned(a):
    b = a * 3.0
    sg.plan_reshard(b.sharding, a.sharding, a.shape, a.dtype).run(b.local, a.grid, out=a.local)
    a.mark_dirty()


@pytest.mark.parametrize("write", WRITES)
def test_a_slice_keeps_its_values_when_the_source_is_written(spmd, write):
    def body():
        a = array_of(sg.init_grid((3,)))
        slices = [a[1:], a[:-2], a[::-1], a[1:][1:], a[...]]
        want = [each.to_global() for each in slices]
        WRITES[write](a)
        for each, values in zip(slices, want):
            assert np.array_equal(each.to_global(), values)

    spmd(3, body)


@pytest.mark.parametrize("write", WRITES)
def test_a_source_keeps_its_values_when_the_slice_is_written(spmd, write):
    def body():
        grid = sg.init_grid((3,))
        a = sg.from_function(lambda i: i + 1.0, (N,), sg.Sharding(grid, [[0]], halo_sizes=[2, 2]), grid)
        b = a[...]
        c = b[...]
        want = a.to_global()
        if write in (
            "halo exchange",
            "accumulate",
            "run_plan",
            "map_overlap",
            "reshard",
            "update_halo",
            "update_halo, periodic",
        ):
            b.core[...] = 7
        else:
            WRITES[write](b)
        assert np.array_equal(a.to_global(), want)
        assert np.array_equal(c.to_global(), want)

    spmd(3, body)


def test_what_is_borrowed_and_what_is_copied():
    def body():
        a = array_of(sg.init_grid((3,)))
        b = a[1:]
        found = {"a shifted slice": shares(a, b), "a slice of it": shares(a, b[...])}
        small = a[:4]
        found["a small part"] = shares(a, small)
        _ = b.local
        found["a slice that was seen"] = shares(a, b)
        found["another slice"] = shares(a, a[1:])
        found["of a slice that was seen"] = shares(b, b[...])
        _ = a.core
        found["of a source that was seen"] = shares(a, a[1:])
        return found

    wanted = {
        "a shifted slice": True,
        "a slice of it": True,
        "a small part": False,
        "a slice that was seen": False,
        "another slice": True,
        "of a slice that was seen": False,
        "of a source that was seen": False,
    }
    assert sg.run_spmd(body, ranks=3) == [wanted] * 3


def test_memory_lives_as_long_as_somebody_reads_it():
    a = array_of(sg.init_grid((1,)))
    b = a[1:]
    source = weakref.ref(a)
    del a
    gc.collect()
    assert b.to_global().tolist() == list(range(2, N + 1))
    b += 1  # gets memory of its own
    gc.collect()
    assert source() is None and b.to_global().tolist() == list(range(3, N + 2))


def test_loans_that_have_ended_are_forgotten():
    a = array_of(sg.init_grid((1,)))
    for _ in range(1000):
        a[1:]
    assert len(a._loans) < 50
