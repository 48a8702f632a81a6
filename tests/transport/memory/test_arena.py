"""Memory that the processes of a node address in one another."""

import ctypes
import gc
import mmap
import os
import random
import sys
import threading
from itertools import pairwise

import numpy as np
import pytest
from support.arena_views import KIB, address_of, bytes_at, check_array

from spmd_grid.errors import TransportError
from spmd_grid.transport import segment_sizes as sizes_module
from spmd_grid.transport.arena import Arena, NodeArena, OneProcessArena
from spmd_grid.transport.segment_sizes import ranks_per_node, segment_size

SIZES = [0, 1, 63, 64, 65, 5000, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 300_001]


def lone_arena(size=1 << 20, place=1):
    """The second of three segments, in a mapping of this process alone."""
    return NodeArena(mmap.mmap(-1, 3 * size), size, {7: 0, 5: 1, 6: 2}, {0: 7, 1: 5, 2: 6}[place])


# -- one process -----------------------------------------------------------------------------------------------


def test_no_arena():
    arena = Arena()
    assert arena.allocate(8) is None and arena.allocate(8, zeroed=True) is None
    assert arena.offset_of(4096, 8) == -1 and arena.base_of(0) is None


@pytest.mark.parametrize("make", [OneProcessArena, lone_arena])
@pytest.mark.parametrize("zeroed", [False, True])
def test_arrays_are_ordinary_and_aligned(make, zeroed):
    arena = make()
    kept = []
    for n in SIZES:
        array = arena.allocate(n, zeroed)
        check_array(array, n)
        assert not zeroed or not array.any()
        array[:] = 255
        kept.append(array)
    spans = sorted((address_of(array), address_of(array) + array.nbytes) for array in kept)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))
    assert all((array == 255).all() for array in kept)


def test_one_process_sees_all_memory():
    arena = OneProcessArena()
    array = arena.allocate(100)
    assert arena.offset_of(address_of(array), 100) + arena.base_of(3) == address_of(array)


def test_offsets_are_of_the_own_segment():
    arena = lone_arena()
    base = arena.base_of(5)
    assert (arena.base_of(7), arena.base_of(6), arena.base_of(0)) == (base - (1 << 20), base + (1 << 20), None)
    array = arena.allocate(1000)
    offset = arena.offset_of(address_of(array), 1000)
    assert 0 <= offset < 1 << 20 and base + offset == address_of(array)
    bytes_at(base + offset, 1000)[:] = 9
    assert (array == 9).all()
    assert arena.offset_of(base, 1 << 20) == 0 and arena.offset_of(base + 5, 0) == 5
    for address, n in (base - 1, 1), (base, (1 << 20) + 1), (base + (1 << 20), 1), (arena.base_of(6), 8):
        assert arena.offset_of(address, n) == -1
    assert arena.offset_of(address_of(np.zeros(8)), 64) == -1


def test_no_room():
    arena = lone_arena(64 * KIB)
    assert arena.allocate(64 * KIB + 1) is None and arena.allocate(1 << 62) is None
    whole = arena.allocate(64 * KIB)
    assert whole is not None and arena.allocate(1) is None
    del whole
    assert arena.allocate(64 * KIB) is not None


def test_small_blocks_wait_for_arrays_of_their_size():
    arena = lone_arena(64 * KIB)
    first = [arena.allocate(1000) for _ in range(20)]
    spans = {address_of(array) for array in first}
    first[0][:] = 7
    del first
    again = [arena.allocate(n, zeroed=True) for n in (970, 1000, 1024)]  # of one extent
    assert {address_of(array) for array in again} < spans and not any(array.any() for array in again)
    assert len({address_of(array) for array in again}) == 3
    del again
    assert arena.allocate(64 * KIB) is not None  # where there is no room otherwise, they are given up
    assert all(arena.allocate(64 * n) is not None for n in range(1, 100))
    assert len(arena._segment._waiting) <= 32


VIEWS = {
    "slice": lambda x: x[10:20:3],
    "reshape": lambda x: x.reshape(10, -1).T[2:],
    "dtype": lambda x: x.view("f8")[3:],
    "view of a view": lambda x: x[8:].view("f4")[1:].reshape(-1, 1)[::2],
    "ndarray": lambda x: np.ndarray((5, 5), "i4", x),
    "memoryview": lambda x: memoryview(x)[7:],
    "frombuffer": lambda x: np.frombuffer(x, "i2"),
    "subclass": lambda x: x.view(np.recarray)[5:],
}


@pytest.mark.parametrize("view", VIEWS)
def test_memory_returns_with_the_last_view(view):
    arena = lone_arena(64 * KIB)
    array = arena.allocate(40_000)
    kept = VIEWS[view](array)
    first = address_of(array)
    del array
    gc.collect()
    assert arena.allocate(40_000) is None
    del kept
    gc.collect()
    assert address_of(arena.allocate(40_000)) == first


def test_used_memory_is_cleared_when_asked():
    arena = lone_arena()
    array = arena.allocate(5000)
    array[:] = 7
    first = address_of(array)
    del array
    assert (arena.allocate(5000) == 7).all()
    array = arena.allocate(200_000, zeroed=True)
    assert not array.any()
    array[:] = 8
    del array
    array = arena.allocate(5000, zeroed=True)
    assert address_of(array) == first and not array.any()


def resident_bytes(mapping_or_array):
    """The resident bytes of the memory at an array, which ``mincore`` tells."""
    n = mapping_or_array.nbytes
    pages = (ctypes.c_ubyte * (n // mmap.PAGESIZE))()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mincore(ctypes.c_void_p(address_of(mapping_or_array)), ctypes.c_size_t(n), pages) == 0
    return sum(page & 1 for page in pages) * mmap.PAGESIZE


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel which pages exist")
def test_fresh_memory_is_not_touched():
    arena = lone_arena(1 << 26)
    array = arena.allocate(1 << 23, zeroed=True)
    assert resident_bytes(array) == 0
    array[: 1 << 22] = 1
    assert resident_bytes(array) == 1 << 22
    del array
    array = arena.allocate(1 << 25, zeroed=True)
    assert resident_bytes(array) == 1 << 23 and not array.any()  # what was taken before, and no more, is cleared


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel which pages exist")
def test_much_free_memory_goes_back_to_the_system():
    size = 1 << 24
    arena = lone_arena(size)
    small = arena.allocate(100)
    arrays = [arena.allocate(size // 8) for _ in range(6)]
    small[:] = 5
    for array in arrays:
        array[:] = 7
    del array, arrays[0]  # an eighth stays
    assert resident_bytes(bytes_at(arena.base_of(5), size)) == size * 6 // 8 + mmap.PAGESIZE
    del arrays[:]
    assert resident_bytes(bytes_at(arena.base_of(5), size)) <= size // 4 + 2 * mmap.PAGESIZE
    assert (small == 5).all()
    array = arena.allocate(size // 4 * 3, zeroed=True)
    assert not array.any()
    del small, array
    assert not arena.allocate(size, zeroed=True).any()


def test_released_in_the_midst_of_an_allocation():
    """The garbage collector may run anywhere, also where this thread holds the lock."""
    arena = lone_arena(64 * KIB)
    array = arena.allocate(64 * KIB)
    with arena._segment._lock:
        del array
    assert arena.allocate(64 * KIB) is not None


def test_a_cycle_is_collected():
    arena = lone_arena(64 * KIB)
    cycle = [arena.allocate(64 * KIB)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert arena.allocate(64 * KIB) is not None


def test_many_threads():
    arena = lone_arena(1 << 18)
    wrong = []

    def work(number):
        rng = random.Random(number)
        mine = []
        for _ in range(400):
            array = arena.allocate(rng.choice([10, 1000, 9000, 70_000]), zeroed=True)
            if array is not None:
                if array.any():
                    wrong.append("not zeros")
                array[:] = number
                mine.append(array)
            if mine and (array is None or rng.random() < 0.5):
                array = mine.pop(rng.randrange(len(mine)))
                if not (array == number).all():
                    wrong.append("shared with another thread")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not wrong
    assert arena.allocate(1 << 18) is not None


def test_a_forked_child_takes_nothing(monkeypatch):
    arena = lone_arena()
    array = arena.allocate(100)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert arena.allocate(100) is None
    del array
    monkeypatch.undo()
    assert arena.allocate(100) is not None


def test_arrays_keep_the_mapping():
    arena = lone_arena()
    array = arena.allocate(1000)
    del arena
    gc.collect()
    array[:] = 3
    assert array.sum() == 3000


# -- how large -------------------------------------------------------------------------------------------------


def test_sizes_from_the_environment(monkeypatch):
    monkeypatch.delenv("SPMD_GRID_ARENA", raising=False)
    monkeypatch.delenv("SPMD_GRID_RANKS_PER_NODE", raising=False)
    physical = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    assert 0 < segment_size(4) <= physical // 4 and ranks_per_node() is None
    assert segment_size(2) == segment_size(1) // 2
    monkeypatch.setenv("SPMD_GRID_ARENA", " 4096 ")
    monkeypatch.setenv("SPMD_GRID_RANKS_PER_NODE", "3")
    assert segment_size(4) == 4096 and ranks_per_node() == 3
    monkeypatch.setenv("SPMD_GRID_ARENA", "0")
    assert segment_size(4) == 0


@pytest.mark.parametrize("value", ["-1", "1.5", "1e9", "2GiB", "all", "½"])
@pytest.mark.parametrize(
    ("name", "read"), [("SPMD_GRID_ARENA", lambda: segment_size(1)), ("SPMD_GRID_RANKS_PER_NODE", ranks_per_node)]
)
def test_bad_values_are_refused(monkeypatch, name, read, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(TransportError, match=f"{name}='{value}'; it must be .* a whole number"):
        read()


def test_no_ranks_per_node_is_refused(monkeypatch):
    monkeypatch.setenv("SPMD_GRID_RANKS_PER_NODE", "0")
    with pytest.raises(TransportError, match="from 1"):
        ranks_per_node()


def test_control_groups_limit_memory(tmp_path, monkeypatch):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (tmp_path / "a" / "memory.max").write_text("1000\n")
    (tmp_path.parent / "memory.max").write_text("5")  # outside
    monkeypatch.setattr(sizes_module, "_GROUPS", tmp_path)
    assert list(sizes_module._group_limits("", "/a/b")) == [1000]
    assert list(sizes_module._group_limits("", "/elsewhere/c")) == []
    (tmp_path / "memory.max").write_text("2000")
    assert sorted(sizes_module._group_limits("", "/elsewhere/c")) == [2000]
    (tmp_path / "memory" / "x").mkdir(parents=True)
    (tmp_path / "memory" / "x" / "memory.limit_in_bytes").write_text("300")
    assert list(sizes_module._group_limits("memory", "/x")) == [300]
