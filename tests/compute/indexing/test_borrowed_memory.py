"""Slices that move nothing read the memory of their source; what writes to it, in any way, shows in them."""

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
    b = a[2:-2]
    view += 1
    a.mark_dirty()
    a.update_halo()
    assert np.array_equal(b.to_global(), a.to_global()[2:-2])


def exchanged(a, method="update"):
    with sg.HaloExchange(a.grid, a.sharding, a.shape, a.dtype) as halo:
        getattr(halo, method)(a)
        if method == "accumulate":
            a.mark_dirty()
        b = a[2:-2]
        if a.grid.rank == 0:
            a.core[...] = -1
        a.mark_dirty()
        halo.update(a)
        assert np.array_equal(b.to_global(), a.to_global()[2:-2])


def written_alone(a):
    """One process writes, and only its neighbours' halos tell them so."""
    if a.grid.rank == 1:
        a.core[...] = -5
    a.mark_dirty()


def computed(v, out, starts, stops):
    out[starts[0] : stops[0]] = v[starts[0] - 1 : stops[0] - 1]


def planned(a):
    b = a * 3.0
    sg.plan_reshard(b.sharding, a.sharding, a.shape, a.dtype).run(b.local, a.grid, out=a.local)
    a.mark_dirty()


@pytest.mark.parametrize("write", WRITES)
def test_a_slice_shows_what_is_written_to_the_source(spmd, write):
    def body():
        a = array_of(sg.init_grid((3,)))
        keys = [np.s_[1:], np.s_[:-2], np.s_[::-1], np.s_[...], np.s_[3:7]]
        slices = [*(a[key] for key in keys), a[1:][1:]]
        WRITES[write](a)
        want = a.to_global()
        for each, values in zip(slices, [*(want[key] for key in keys), want[2:]], strict=True):
            assert np.array_equal(each.to_global(), values)

    spmd(3, body)


@pytest.mark.parametrize("write", WRITES)
def test_a_source_shows_what_is_written_to_the_slice(spmd, write):
    def body():
        a = array_of(sg.init_grid((3,)))
        b = a[...]
        c = b[...]
        if write in ("halo exchange", "accumulate", "run_plan", "map_overlap", "update_halo, periodic", "local, later"):
            b.core[...] = 7
            b.mark_dirty()
        else:
            WRITES[write](b)
        assert np.array_equal(a.to_global(), b.to_global())
        assert np.array_equal(c.to_global(), b.to_global())
        assert np.array_equal((a[1:] - a[:-1]).to_global(), np.diff(b.to_global()))

    spmd(3, body)


def test_what_is_borrowed_and_what_is_copied():
    def body():
        a = array_of(sg.init_grid((3,)))
        b = a[1:]
        found = {"a shifted slice": shares(a, b), "a slice of it": shares(a, b[...])}
        _ = b.local  # reads halos, so that it shows the values of now
        found["a shifted slice that was seen"] = shares(a, b)
        inner = a[...]
        _ = inner.local
        found["a slice in place that was seen"] = shares(a, inner) and inner.local.flags.writeable
        found["of a source that was seen"] = shares(a, a[1:])
        moved = a[::-1]
        found["one that moves"] = shares(a, moved) or moved.core.flags.writeable
        return found

    wanted = {
        "a shifted slice": True,
        "a slice of it": True,
        "a shifted slice that was seen": False,
        "a slice in place that was seen": True,
        "of a source that was seen": True,
        "one that moves": False,
    }
    assert sg.run_spmd(body, ranks=3) == [wanted] * 3


def test_memory_lives_as_long_as_somebody_reads_it():
    a = array_of(sg.init_grid((1,)))
    b = a[1:]
    source = weakref.ref(a)
    del a
    gc.collect()
    assert b.to_global().tolist() == list(range(2, N + 1))
    b += 1
    assert source() is None and b.to_global().tolist() == list(range(3, N + 2))


def test_arrays_end_with_their_last_reference():
    gc.collect()
    gc.disable()
    try:
        a = array_of(sg.init_grid((1,)))
        v, w = a[1:], a[...].reshape(4, 6)
        w += 1
        a += 1
        v += 1
        d = a[1:] - a[:-1]
        references = [weakref.ref(each) for each in (a, v, w, d, a._twin)]
        del a, v, w, d
        assert [each() for each in references] == [None] * 5
    finally:
        gc.enable()
