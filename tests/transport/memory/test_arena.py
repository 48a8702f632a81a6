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
from support.jobs import run_job

import spmd_grid as sg
from spmd_grid.errors import TransportError
from spmd_grid.transport import arena as arena_module
from spmd_grid.transport.arena import Arena, NodeArena, OneProcessArena, ranks_per_node, segment_size
from spmd_grid.transport.launch import current_world

KIB = 1 << 10
SIZES = [0, 1, 63, 64, 65, 5000, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 300_001]

# Elsewhere memory is not shared, and nothing but speed is lost.
SHARED = sys.platform == "linux" and not {"SPMD_GRID_ARENA", "SPMD_GRID_RANKS_PER_NODE"} & set(os.environ)


def address_of(array):
    return array.__array_interface__["data"][0]


def bytes_at(address, n):
    return np.ctypeslib.as_array((ctypes.c_ubyte * n).from_address(address))


def lone_arena(size=1 << 20, place=1):
    """The second of three segments, in a mapping of this process alone."""
    return NodeArena(mmap.mmap(-1, 3 * size), size, {7: 0, 5: 1, 6: 2}, {0: 7, 1: 5, 2: 6}[place])


def check_array(array, n):
    assert array.dtype == np.uint8 and array.shape == (n,)
    assert array.flags.writeable and array.flags.c_contiguous and array.flags.aligned
    assert address_of(array) % (mmap.PAGESIZE if n >= 64 * KIB else 64) == 0 or n == 0


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
    with arena._lock:
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
    monkeypatch.setattr(arena_module, "_GROUPS", tmp_path)
    assert list(arena_module._group_limits("", "/a/b")) == [1000]
    assert list(arena_module._group_limits("", "/elsewhere/c")) == []
    (tmp_path / "memory.max").write_text("2000")
    assert sorted(arena_module._group_limits("", "/elsewhere/c")) == [2000]
    (tmp_path / "memory" / "x").mkdir(parents=True)
    (tmp_path / "memory" / "x" / "memory.limit_in_bytes").write_text("300")
    assert list(arena_module._group_limits("memory", "/x")) == [300]


# -- processes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_processes_read_and_write_one_another(spmd, n):
    def body():
        grid, comm = sg.init_grid((n,)), current_world()
        arena = comm.process.arena
        if n == 1 or not SHARED:
            return True
        me = grid.rank
        for size in (40, 100_000):
            kept = arena.allocate(17 + 100 * me)  # the offsets differ by process
            mine = arena.allocate(size)
            check_array(mine, size)
            mine[:] = me + 1
            offset = arena.offset_of(address_of(mine), size)
            assert offset >= 0 and arena.offset_of(address_of(kept), kept.nbytes) not in (-1, offset)
            offsets = sg.all_gather(np.array([offset]), grid, [0], 0).tolist()
            theirs = [bytes_at(arena.base_of(comm.processes[i]) + offsets[i], size) for i in range(n)]
            assert [view.tolist() for view in theirs] == [[i + 1] * size for i in range(n)]
            comm.barrier()
            theirs[(me + 1) % n][size // 2 :] = 100 + me
            comm.barrier()
            assert mine.tolist() == [me + 1] * (size // 2) + [100 + (me - 1) % n] * (size - size // 2)
        return True

    assert all(spmd(n, body))


def test_processes_that_are_not_there(spmd):
    def body():
        comm = current_world()
        seen = comm.process.arena.base_of(10**6)
        return seen is None or comm.shares_memory

    assert all(spmd(2, body))


def run_mpi(tmp_path, n, text, *args):
    program = tmp_path / "program.py"
    program.write_text(PROLOGUE + text)
    return run_job("mpiexec", n, program, *args)


PROLOGUE = """
import os, sys
from mpi4py import MPI
import numpy as np
rank = MPI.COMM_WORLD.rank
"""

REPORT = """
import spmd_grid as sg
from spmd_grid.transport.launch import current_world
grid = sg.init_grid((-1,))
arena = current_world().process.arena
seen = [arena.base_of(i) is not None for i in range(grid.size)]
a = sg.from_function(lambda i: i * 1.0, (4000,), sg.Sharding(grid, [[0]], halo_sizes=[1, 1]), grid)
inside = arena.offset_of(a.local.__array_interface__["data"][0], a.local.nbytes) >= 0
assert a.update_halo().to_global().tolist() == list(range(4000))
for i in range(grid.size):
    if i == rank:
        print(*map(int, seen), int(inside), flush=True)
    current_world().barrier()
"""


def report(done):
    assert done.code == 0 and not done.err, done
    return sorted(done.out.split("\n")[:-1])


ENVIRONMENT = "os.environ[sys.argv[1]] = sys.argv[2].split(',')[rank] if ',' in sys.argv[2] else sys.argv[2]\n"


full = pytest.mark.full


@pytest.mark.parametrize(
    ("name", "value", "lines"),
    [
        pytest.param("SPMD_GRID_ARENA", "100000", ["1 1 1 1 1"] * 4, marks=full),
        ("SPMD_GRID_ARENA", "5000", ["1 1 1 1 0"] * 4),  # two pages: full, so ordinary memory
        pytest.param("SPMD_GRID_ARENA", "0", ["0 0 0 0 0"] * 4, marks=full),
        ("SPMD_GRID_ARENA", "100000,100000,0,100000", ["0 0 0 0 0"] * 4),
        pytest.param("SPMD_GRID_RANKS_PER_NODE", "4", ["1 1 1 1 1"] * 4, marks=full),
        pytest.param("SPMD_GRID_RANKS_PER_NODE", "2", ["0 0 1 1 1"] * 2 + ["1 1 0 0 1"] * 2, marks=full),
        ("SPMD_GRID_RANKS_PER_NODE", "3", ["0 0 0 0 0"] + ["1 1 1 0 1"] * 3),
        pytest.param("SPMD_GRID_RANKS_PER_NODE", "1", ["0 0 0 0 0"] * 4, marks=full),
    ],
)
@pytest.mark.skipif(not SHARED, reason="this system shares no memory")
def test_environment(tmp_path, name, value, lines):
    text = ENVIRONMENT + ("import spmd_grid as sg; keep = []\n" if value == "5000" else "")
    body = REPORT.replace("a = sg", "full = arena.allocate(5000)\na = sg", 1) if value == "5000" else REPORT
    assert report(run_mpi(tmp_path, 4, text + body, name, value)) == lines


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPMD_GRID_ARENA", "10,many"),
        ("SPMD_GRID_RANKS_PER_NODE", "many"),
        pytest.param("SPMD_GRID_ARENA", "many", marks=full),
        pytest.param("SPMD_GRID_RANKS_PER_NODE", "10,many", marks=full),
    ],
)
def test_bad_environment_ends_all(tmp_path, name, value):
    program = ENVIRONMENT + "import spmd_grid as sg\n"
    program += "try: sg.init_grid((-1,))\nexcept sg.TransportError as error: print(error, flush=True)"
    done = run_mpi(tmp_path, 2, program, name, value)
    assert done.code == 0 and done.out.count(f"{name}='many'; it must be") == 2, done


FAILURES = {
    "no file": "arena._shared_file = lambda nbytes: contextlib.nullcontext(None)",
    "one cannot map": "if rank == 1: arena._map = lambda *args: None",
    "little address space": "if rank == 1: resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))\n"
    "os.environ['SPMD_GRID_ARENA'] = str(1 << 33)",
    "more than there can be": "os.environ['SPMD_GRID_ARENA'] = str(10**29)",
    "memory is counted strictly": "arena._grants_memory_late = lambda: False",
    "another file": "if rank == 0: os.getpid = lambda: 1",
}


# By default one failure of each kind: of all, of one, and of files that do not match.
SELDOM = {"little address space", "more than there can be", "memory is counted strictly"}


@pytest.mark.parametrize("what", [pytest.param(what, marks=full) if what in SELDOM else what for what in FAILURES])
def test_where_one_fails_all_go_on_without(tmp_path, what):
    text = f"import contextlib, resource\nfrom spmd_grid.transport import arena\n{FAILURES[what]}\n"
    assert report(run_mpi(tmp_path, 3, text + REPORT)) == ["0 0 0 0"] * 3


LEFT_ALIVE = """
import spmd_grid as sg
from mpi4py import MPI
comm = MPI.COMM_WORLD.Dup()
grid = sg.init_grid((-1,), comm=comm)
a = sg.zeros((1000, 1000), sg.Sharding(grid, [[0]]), grid)
a.core[:] = rank
view = a.core[5:, 3:]
comm.Free()
a.core[:] += 1
assert (view == rank + 1).all()
b = sg.zeros((1000, 1000), sg.Sharding(sg.init_grid((-1,)), [[0]]), sg.init_grid((-1,)))
b.local[:] = 4
class Cycle: pass
cycle = Cycle(); cycle.me, cycle.array = cycle, b.local
"""


def test_arrays_outlive_their_world_and_the_program_ends_quietly(tmp_path):
    before = set(os.listdir("/dev/shm"))
    done = run_mpi(tmp_path, 3, LEFT_ALIVE)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert not [name for name in {*os.listdir("/dev/shm")} - before if "spmd_grid" in name]


FORK = """
import spmd_grid as sg
grid = sg.init_grid((-1,))
a = sg.zeros((100,), sg.Sharding(grid, [[0]]), grid)
child = os.fork() if rank == 0 else None
if child == 0:
    b = grid.allocate((100,), "f8", zeroed=True)
    b[:] = 1
    del a, b
    os._exit(0)
if child is not None:
    assert os.waitpid(child, 0)[1] == 0
b = grid.allocate((100,), "f8")
b[:] = 2
assert not a.to_global().any()
"""


def test_a_child_process_leaves_the_arena_alone(tmp_path):
    done = run_mpi(tmp_path, 2, FORK)
    assert (done.code, done.out) == (0, ""), done
