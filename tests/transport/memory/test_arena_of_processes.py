"""The arena of several processes: each reads the others' memory, and what goes wrong with one is known to all."""

import numpy as np
import pytest
from support.arena_views import SHARED, address_of, bytes_at, check_array
from support.jobs import run_job
from support.mapped_files import KEEP_MAPS, shared_files

import spmd_grid as sg
from spmd_grid.transport.launch import current_world


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


LEFT_ALIVE = f"""
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
{KEEP_MAPS.replace("grid.rank", "rank")}
class Cycle: pass
cycle = Cycle(); cycle.me, cycle.array = cycle, b.local
"""


def test_arrays_outlive_their_world_and_the_program_ends_quietly(tmp_path):
    done = run_mpi(tmp_path, 3, LEFT_ALIVE)
    assert (done.code, done.out, done.err) == (0, "", "")
    assert not [name for name in shared_files(tmp_path) if "spmd_grid" in name]


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
