"""Small arrays that an arena gives out again: only those that nobody uses, in any way, in any thread."""

import ctypes
import gc
import mmap
import os
import sys
import threading
import weakref

import numpy as np
import pytest
from support.arena_views import address_of

from spmd_grid.transport.arena import NodeArena
from spmd_grid.transport.kept_arrays import KeptArrays

SIZE = 4096


def lone_arena(size=1 << 20):
    return NodeArena(mmap.mmap(-1, size), size, {0: 0}, 0)


USES = {
    "itself": lambda x: x,
    "array of another shape": lambda x: np.ndarray((8, 64), "f8", x),
    "slice": lambda x: x[10:20:3],
    "view of an array": lambda x: np.ndarray((8, 64), "f8", x)[2:].T.view("i8")[1:],
    "memoryview": lambda x: memoryview(np.ndarray((8, 64), "f8", x))[3:],
    "buffer": lambda x: np.frombuffer(memoryview(x), "i2"),
    "subclass": lambda x: x.view(np.recarray)[5:],
    "dlpack": lambda x: np.from_dlpack(np.ndarray((8, 64), "f8", x)),
    "ctypes": lambda x: (ctypes.c_char * 100).from_buffer(x),
    "iterator": lambda x: np.nditer(np.ndarray((8, 64), "f8", x)),
    "cycle": lambda x: (lambda each: each.append(each) or each)([x[1:]]),
    "function": lambda x: lambda: x[3],
}


@pytest.mark.parametrize("use", USES)
def test_what_is_used_is_not_given_again(use):
    arena = lone_arena()
    array = arena.allocate(SIZE)
    address = address_of(array)
    kept = USES[use](array)
    del array
    others = [arena.allocate(SIZE) for _ in range(3)]
    assert address not in map(address_of, others)
    others.clear()
    del kept
    gc.collect()
    found = {address_of(array) for array in [arena.allocate(SIZE) for _ in range(4)]}
    assert address in found


def test_an_idle_array_is_given_at_once_and_cleared_when_asked():
    arena = lone_arena()
    array = arena.allocate(SIZE)
    array[:] = 7
    address = address_of(array)
    del array
    array = arena.allocate(SIZE)
    assert address_of(array) == address and (array == 7).all()
    del array
    array = arena.allocate(SIZE, zeroed=True)
    assert address_of(array) == address and not array.any()


def test_few_arrays_are_kept():
    kept = KeptArrays()
    arrays = [np.empty(8 * n, np.uint8) for n in range(1, 101) for _ in range(6)]
    for array in arrays:
        kept.keep(array)
    references = [weakref.ref(array) for array in arrays]
    del array, arrays
    assert sum(each() is not None for each in references) <= 4 * 32
    assert kept.idle(8 * 100) is not None and kept.idle(9) is None
    kept.clear()
    assert kept.idle(8 * 100) is None and not any(each() is not None for each in references)


def test_kept_arrays_do_not_keep_their_arena():
    mapping = mmap.mmap(-1, 1 << 20)
    reference = weakref.ref(arena := NodeArena(mapping, 1 << 20, {0: 0}, 0))
    assert arena.allocate(SIZE) is not None
    del arena
    assert reference() is None
    mapping.close()  # refused while any array has its memory there


def test_threads_get_arrays_of_their_own():
    arena = lone_arena(1 << 22)
    wrong, interval = [], sys.getswitchinterval()

    def body(me):
        for n in range(3000):
            arrays = [arena.allocate(SIZE) for _ in range(1 + n % 3)]
            for array in arrays:
                array[:8] = me
            if any((array[:8] != me).any() for array in arrays):
                wrong.append(n)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=body, args=(me,)) for me in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_gets_none_of_its_parents_arrays():
    arena = lone_arena()
    assert arena.allocate(SIZE) is not None
    child = os.fork()
    if not child:
        os._exit(0 if arena.allocate(SIZE) is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert arena.allocate(SIZE) is not None
