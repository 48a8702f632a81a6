"""The memory of sharded arrays: others of the node can address it, and numpy sees ordinary arrays all the same."""

import gc
import math
import os
import sys
import weakref

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.transport.arena import Arena, NodeArena
from spmd_grid.transport.launch import current_world

ROW = [[0]]
DTYPES = ["f8", "i2", "?", "c16", "S5", "U3", "M8[us]", "V7", "longdouble", [("a", "i1"), ("b", "f8")], ">f4"]
SHAPES = [(), (0,), (3,), (5, 0), (2, 1, 4), (300, 300)]


def address_of(array):
    return array.__array_interface__["data"][0]


def lies_in_arena(array):
    return current_world().process.arena.offset_of(address_of(array), array.nbytes) >= 0


def expects_arena(comm):
    given = {"SPMD_GRID_ARENA", "SPMD_GRID_RANKS_PER_NODE"} & set(os.environ)
    return comm.shares_memory or (sys.platform == "linux" and comm.process.size > 1 and not given)


def is_ordinary(array):
    return type(array) is np.ndarray and array.flags.c_contiguous and array.flags.writeable and array.flags.aligned


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_allocate(spmd, shape, dtype):
    def body():
        grid, dtype_ = sg.init_grid((2,)), np.dtype(dtype)
        for zeroed in False, True:
            array = grid.allocate(shape, dtype_, zeroed)
            assert array.shape == shape and array.dtype == dtype_ and is_ordinary(array)
            assert lies_in_arena(array) == expects_arena(current_world())
            assert address_of(array) % 64 == 0 or not array.size or not expects_arena(current_world())
            assert not zeroed or set(array.tobytes()) <= {0}
            array.reshape(-1).view(np.uint8)[:] = 255
            assert set(array.tobytes()) <= {255}
        return True

    assert all(spmd(2, body))


@pytest.mark.parametrize("dtype", ["S0", "U0", "V0", [], "O"], ids=str)
def test_elements_that_have_no_bytes_of_their_own(spmd, dtype):
    """As numpy makes them."""

    def body():
        grid = sg.init_grid((2,))
        array, like = grid.allocate((3, 2), dtype, zeroed=True), np.zeros((3, 2), dtype)
        assert array.dtype == like.dtype and array.tolist() == like.tolist()
        if like.dtype.hasobject:
            assert type(grid.allocate((3,), dtype)[0]) is type(np.empty(3, dtype)[0])
            return True
        s = sg.Sharding(grid, ROW)
        for make in sg.zeros, sg.empty:
            a = make((3,), s, grid, dtype)
            assert a.local.dtype == np.zeros(1, dtype).dtype and a.local.shape == (2 - grid.rank,)
        return True

    assert all(spmd(2, body))


def test_impossible_sizes(spmd):
    def body():
        grid = sg.init_grid((2,))
        for n in 1 << 60, 1 << 70:
            with pytest.raises((MemoryError, ValueError)):
                grid.allocate((n,), "f8")
        return True

    assert all(spmd(2, body))


def makers(grid):
    s = sg.Sharding(grid, ROW, halo_sizes=[1, 2])
    whole = np.arange(1, 20.0)
    return {
        "zeros": (lambda: sg.zeros((19,), s, grid), None),
        "full": (lambda: sg.full((19,), s, grid, fill_value=3), np.full(19, 3.0)),
        "from_function": (lambda: sg.from_function(lambda i: i + 1.0, (19,), s, grid), whole),
        "from_global": (lambda: sg.ShardedArray.from_global(whole, s, grid), whole),
        "empty": (lambda: sg.empty((19,), s, grid), None),
    }


@pytest.mark.parametrize("name", ["zeros", "full", "from_function", "from_global", "empty"])
@pytest.mark.parametrize("n", [1, 3])
def test_constructors_take_memory_that_has_been_used(spmd, name, n):
    """Former contents do not show, in halos outside the domain least of all."""

    def body():
        grid = sg.init_grid((n,))
        make, whole = makers(grid)[name]
        for _ in range(3):
            a = make()
            assert is_ordinary(a.local) and lies_in_arena(a.local) == expects_arena(current_world())
            if name != "empty":
                assert a.to_global().tolist() == (np.zeros(19) if whole is None else whole).tolist()
                inside = a.layout.in_domain_local(grid.coords)
                outside = np.ones(a.local.shape, bool)
                outside[inside.slices()] = False
                assert not a.local[outside].any()
            a.local[:] = 77
            first = address_of(a.local)
            del a
            gc.collect()
        if isinstance(current_world().process.arena, NodeArena):
            assert address_of(make().local) == first
        return True

    assert all(spmd(n, body))


def test_without_an_arena(spmd):
    def body():
        grid = sg.init_grid((2,))
        process = current_world().process
        arena, process.arena = process.arena, Arena()
        try:
            a = sg.from_function(lambda i: i * 2, (5,), sg.Sharding(grid, ROW, halo_sizes=[1, 1]), grid)
            assert not lies_in_arena(a.local) and is_ordinary(a.local)
            return a.update_halo().to_global().tolist()
        finally:
            process.arena = arena

    assert spmd(2, body) == [[0, 2, 4, 6, 8]] * 2


def test_memory_lives_as_long_as_any_view(spmd):
    def body():
        grid = sg.init_grid((2,))
        a = sg.full((1000,), sg.Sharding(grid, ROW), grid, fill_value=grid.rank + 1)
        alive, view = weakref.ref(a), a.core[100:200].reshape(10, 10)
        del a
        gc.collect()
        assert alive() is None
        others = [sg.full((1000,), sg.Sharding(grid, ROW), grid, fill_value=9) for _ in range(5)]
        return view.tolist() == [[grid.rank + 1] * 10] * 10 and len(others) == 5

    assert all(spmd(2, body))


def test_large_arrays_of_several_processes(spmd):
    def body():
        grid = sg.init_grid((3,))
        shape = (900, 700)
        s = sg.Sharding(grid, [[], [0]], halo_sizes=[1, 1])
        arrays = [sg.from_function(lambda i, j, k=k: i * 1000.0 + j + k, shape, s, grid) for k in range(4)]
        for k, a in enumerate(arrays):
            a.core[...] += 0.5
            a.update_halo()
            inside = a.layout.local_box(grid.coords).intersect(a.layout.domain_box)
            i, j = np.ogrid[inside.slices()]
            expected = i * 1000.0 + j + k + 0.5
            assert np.array_equal(a.local[a.layout.in_domain_local(grid.coords).slices()], expected)
        return math.prod(shape)

    assert spmd(3, body) == [630_000] * 3


def test_mark_dirty(spmd):
    def body():
        grid = sg.init_grid((2,))
        a = sg.zeros((4,), sg.Sharding(grid, ROW), grid)
        before = a._version
        assert a.mark_dirty() is None and a._version == before + 1 == 2
        a.mark_dirty()
        b = sg.ShardedArray.from_local(a.local, a.sharding, grid, (4,))
        return a._version, b._version

    assert spmd(2, body) == [(3, 1)] * 2
