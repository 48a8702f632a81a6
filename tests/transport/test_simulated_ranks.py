"""What is particular to simulated ranks: failures, deadlock reports, determinism, many ranks, compiled loops."""

import os
import signal
import sys
import threading
import time
import traceback

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.errors import DeadlockError, GridError, MismatchError, RankEndedError, SimulationError
from spmd_grid.transport import launch

MODES = pytest.mark.parametrize("seed", [None, 5], ids=["free", "seeded"])


def world(n=None):
    return sg.init_grid((-1,) if n is None else (n,))


def elapsed(function, *args, **options):
    """Runs a call that must raise; the exception and the seconds it took."""
    started = time.perf_counter()
    with pytest.raises(BaseException) as caught:
        sg.run_spmd(function, *args, **options)
    return caught.value, time.perf_counter() - started


@MODES
def test_results_by_rank(seed):
    assert sg.run_spmd(lambda a, b: (a, b, world().rank), 1, [2], ranks=5, seed=seed) == [
        (1, [2], rank) for rank in range(5)
    ]


@pytest.mark.parametrize("ranks", [0, -1, 2.0, True, "4", None])
def test_number_of_ranks(ranks):
    with pytest.raises(GridError, match="whole number of simulated ranks"):
        sg.run_spmd(lambda: None, ranks=ranks)


# -- failures ------------------------------------------------------------------------------------------------


def computes():
    n = 0
    while True:
        n += 1


OTHERS = {
    "all_reduce": lambda grid: sg.all_reduce(1, grid, [0], "sum"),
    "recv": lambda grid: sg.recv(grid, [0]),
    "recv from the failing rank": lambda grid: sg.recv(grid, [0], [1]),
    "computes": lambda grid: computes(),
    "sleeps": lambda grid: [time.sleep(0.01) for _ in range(10_000)],
    "is through": lambda grid: None,
}


@MODES
@pytest.mark.parametrize("others", OTHERS)
def test_an_exception_ends_the_others(others, seed):
    if seed is not None and others in ("computes", "sleeps"):
        seed = 1  # under which the failing rank comes first: with a seed nobody runs beside one that computes

    def body():
        grid = world()
        if grid.rank == 1:
            if seed is None:
                time.sleep(0.05)
            raise KeyError("on purpose")
        if seed is not None and others in ("computes", "sleeps"):
            sg.recv(grid, [0], [1])
        OTHERS[others](grid)

    error, seconds = elapsed(body, ranks=3, seed=seed)
    assert type(error) is KeyError
    assert error.__notes__ == ["raised on simulated rank 1 (1,) of 3"]
    assert "in body" in "".join(traceback.format_exception(error))
    assert seconds < 3
    time.sleep(0.05)
    assert not [t for t in threading.enumerate() if t.name.startswith("rank ")]


def test_a_rank_stuck_in_a_long_sleep_is_left_behind():
    def body():
        if world().rank:
            time.sleep(4)
        raise KeyError

    error, seconds = elapsed(body, ranks=2)
    assert type(error) is KeyError and seconds < 3


def test_the_first_failure_counts():
    def body():
        rank = world().rank
        time.sleep(0.1 * rank)
        raise ValueError(rank)

    error, _ = elapsed(body, ranks=3)
    assert error.args == (0,)


@MODES
def test_exit_with_a_code_ends_the_others(seed):
    def body():
        grid = world()
        if grid.rank == 1:
            sys.exit(3)
        sg.all_reduce(1, grid, [0], "sum")

    error, seconds = elapsed(body, ranks=4, seed=seed)
    assert type(error) is RankEndedError and (error.rank, error.code) == (1, 3) and seconds < 2
    assert "rank 1 of 4 called sys.exit(3)" in str(error)


def test_exit_with_a_message():
    error, _ = elapsed(lambda: sys.exit("no input file"), ranks=1)
    assert (error.rank, error.code) == (0, 1) and "sys.exit('no input file')" in str(error)


@MODES
@pytest.mark.parametrize(
    ("leave", "how"),
    [
        (lambda: None, "returned from the program"),
        (lambda: sys.exit(0), r"called sys.exit\(0\)"),
        (sys.exit, r"called sys.exit\(\)"),
    ],
)
def test_an_early_end_while_others_wait(leave, how, seed):
    def body():
        grid = world()
        if grid.rank == 2:
            return leave()
        if grid.rank == 0:
            return sg.recv(grid, [0], [2])
        return sg.recv(grid, [0], [0])  # waits for the one who waits in vain

    with pytest.raises(RankEndedError, match=f"rank 2 of 3 {how} while rank 0 waits for it") as caught:
        sg.run_spmd(body, ranks=3, seed=seed)
    assert (caught.value.rank, caught.value.code) == (2, 1)


@MODES
def test_ends_that_are_fine(seed):
    assert sg.run_spmd(lambda: None, ranks=3, seed=seed) == [None] * 3
    assert sg.run_spmd(lambda: sys.exit(0), ranks=3, seed=seed) == [None] * 3

    def body():  # each message is there before its sender ends
        grid = world()
        if grid.rank < 2:
            sg.send(np.arange(3), grid, [0], [2])
            return None
        return sorted(sg.recv(grid, [0], [source]).sum() + sg.recv(grid, [0], [0]).size for source in [1])

    def sender_twice():
        grid = world()
        if grid.rank == 0:
            sg.send(np.arange(3), grid, [0], [2])
        return body()

    assert sg.run_spmd(sender_twice, ranks=3, seed=seed)[2] == [6]


def test_interrupt_in_the_main_thread():
    def body():
        if world().rank == 0:
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)
        computes()

    error, seconds = elapsed(body, ranks=2)
    assert type(error) is KeyboardInterrupt and seconds < 4


# -- deadlocks -----------------------------------------------------------------------------------------------


@MODES
def test_deadlock_report(seed):
    def body():
        grid = world()
        if grid.rank < 2:
            sg.recv(grid, [0], [1 - grid.rank])  # this line is reported
        else:
            sg.all_reduce(1, grid, [0], "sum")

    error, seconds = elapsed(body, ranks=3, seed=seed)
    assert type(error) is DeadlockError and seconds < 1
    line = body.__code__.co_firstlineno + 3
    head, *lines = str(error).splitlines()
    assert head == "deadlock: no simulated rank can go on"
    assert lines[0] == (
        f"  rank 0 waits in recv(grid_axes=[0], source=[1]) at test_simulated_ranks.py:{line} for rank 1"
    )
    assert lines[1] == (
        f"  rank 1 waits in recv(grid_axes=[0], source=[0]) at test_simulated_ranks.py:{line} for rank 0"
    )
    assert lines[2].startswith("  rank 2 waits in all_reduce(grid_axes=[0]")
    assert lines[2].endswith(f"at test_simulated_ranks.py:{line + 2} for ranks 0 and 1")
    assert not hasattr(error, "__notes__")  # no rank is to blame


@MODES
def test_deadlock_of_receives_from_anybody(seed):
    error, seconds = elapsed(lambda: sg.recv(world(), [0]), ranks=3, seed=seed)
    assert type(error) is DeadlockError and seconds < 1
    assert "rank 1 waits in recv(grid_axes=[0], source=any)" in str(error) and "for rank" in str(error)


@MODES
def test_deadlock_of_one(seed):
    with pytest.raises(DeadlockError, match="rank 0 waits in recv.*for nobody"):
        sg.run_spmd(lambda: sg.recv(world(), [0]), ranks=1, seed=seed)
    with pytest.raises(DeadlockError, match="rank 0 waits in recv.*for rank 0"):
        sg.run_spmd(lambda: sg.recv(world(), [0], [0]), ranks=1, seed=seed)


def test_deadlock_of_many_is_short():
    error, seconds = elapsed(lambda: sg.recv(world(), [0]), ranks=200)
    assert type(error) is DeadlockError and seconds < 5
    assert len(str(error).splitlines()) == 1 + 64 + 1 and "and 136 more ranks" in str(error)


@MODES
def test_different_operations_are_named(seed):
    def body():
        grid = world()
        if grid.rank == 0:
            sg.broadcast(np.ones(3), grid, [0], [0])
        else:
            sg.all_reduce(np.ones(3), grid, [0], "sum")

    error, seconds = elapsed(body, ranks=3, seed=seed)
    assert type(error) is MismatchError and seconds < 2
    _, *lines = str(error).splitlines()
    assert [line.split("(grid_axes")[0] for line in lines] == [
        "  rank 0 (0,): broadcast",
        "  rank 1 (1,): all_reduce",
        "  rank 2 (2,): all_reduce",
    ]


# -- determinism ---------------------------------------------------------------------------------------------


def arrivals(seed, ranks=5):
    def body():
        grid = world()
        if grid.rank:
            for turn in range(3):
                sg.send(np.array([grid.rank, turn]), grid, [0], [0])
            return None
        return [tuple(sg.recv(grid, [0]).tolist()) for _ in range(3 * (ranks - 1))]

    return sg.run_spmd(body, ranks=ranks, seed=seed)[0]


def test_the_seed_decides_the_order():
    runs = {seed: arrivals(seed) for seed in range(6)}
    assert all(arrivals(seed) == order for seed, order in runs.items())
    assert len({tuple(order) for order in runs.values()}) > 3


def test_with_a_seed_one_rank_runs_at_a_time():
    running = set()

    def body():
        grid = world()
        for _ in range(20):
            assert not running
            running.add(grid.rank)
            time.sleep(0.0005)
            running.remove(grid.rank)
            sg.shift(np.ones(2), grid, [0], 0, 1, rotate=True)

    sg.run_spmd(body, ranks=4, seed=0)


# -- runs within and beside runs -----------------------------------------------------------------------------


@MODES
def test_a_rank_may_run_ranks(seed):
    def inner(outer):
        grid = world()
        return outer, sg.all_reduce(grid.rank, grid, [0], "sum").item()

    def body():
        grid = world()
        inside = sg.run_spmd(inner, grid.rank, ranks=3, seed=seed)
        assert grid.rank == world().rank  # back in the outer world
        return inside, sg.all_reduce(1, grid, [0], "sum").item()

    assert sg.run_spmd(body, ranks=2, seed=seed) == [([(rank, 3)] * 3, 2) for rank in range(2)]


def test_a_failure_outside_ends_a_run_inside():
    def body():
        grid = world()
        if grid.rank == 0:
            sg.run_spmd(computes, ranks=2)
        time.sleep(0.1)
        raise KeyError(grid.rank)

    error, seconds = elapsed(body, ranks=2)
    assert error.args == (1,) and seconds < 4
    time.sleep(1.5)
    assert not [t for t in threading.enumerate() if t.name.startswith("rank ")]


def test_two_runs_at_once():
    results = {}

    def run(ranks):
        def body():
            grid = world()
            return [sg.all_reduce(grid.rank, grid, [0], "sum").item() for _ in range(30)][-1]

        results[ranks] = [sg.run_spmd(body, ranks=ranks) for _ in range(5)]

    threads = [threading.Thread(target=run, args=(ranks,)) for ranks in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {3: [[3] * 3] * 5, 4: [[6] * 4] * 5}


def test_threads_of_the_program():
    """A thread that a rank starts may use the rank's grid, while the rank waits; it may not make one."""

    def body():
        grid, found = world(), []

        def work():
            found.append(sg.all_reduce(grid.rank, grid, [0], "sum").item())
            try:
                world()
            except SimulationError as error:
                found.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return found

    for total, refusal in sg.run_spmd(body, ranks=3):
        assert total == 3 and "a thread that is not a simulated rank" in refusal
    assert not launch._n_simulations


# -- many ranks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [None, pytest.param(1, marks=pytest.mark.full)])
def test_a_thousand_ranks(seed):
    def body():
        grid = sg.init_grid((32, 32))
        total = sg.all_reduce(np.array([grid.rank]), grid, [0, 1], "sum")
        x = np.full((4, 5), -1)
        x[1:3, 1:4] = grid.rank
        sg.update_halo(x, grid, [[0], [1]], [1, 1, 1, 1])
        down, up = grid.neighbors_linear_indices(grid.coords, [1])
        assert x[1, 0] == down and x[1, 4] == up
        return int(total[0])

    started = time.perf_counter()
    assert sg.run_spmd(body, ranks=1024, seed=seed) == [1023 * 512] * 1024
    seconds = time.perf_counter() - started
    print(f"1,024 ranks: {seconds:.1f} s")
    assert seconds < 30


# -- compiled loops ------------------------------------------------------------------------------------------


def test_a_compiled_loop_that_calls_back_does_not_deadlock():
    numba = pytest.importorskip("numba")
    grids = {}

    def step(rank, value):
        return float(sg.all_reduce(np.float64(value), grids[rank], [0], "max"))

    @numba.njit  # holds the GIL
    def loop(rank, n):
        value = float(rank)
        for _ in range(n):
            with numba.objmode(largest="float64"):
                largest = step(rank, value)
            value = largest + 1.0
        return value

    def body():
        grids[world().rank] = world()
        return loop(world().rank, 20)

    assert sg.run_spmd(body, ranks=3) == [22.0] * 3


def test_a_compiled_loop_that_holds_the_gil():
    numba = pytest.importorskip("numba")

    @numba.njit
    def spin(n):
        x = 1.0
        for i in range(n):
            x = x * 1.0000001 + i % 3
        return x

    spin(1)

    def body():
        grid = world()
        if grid.rank == 0:
            spin(300_000_000)
        return sg.all_reduce(1, grid, [0], "sum").item()

    assert sg.run_spmd(body, ranks=3) == [3] * 3


# -- imports -------------------------------------------------------------------------------------------------


def test_mpi4py_is_refused_by_ranks_only(tmp_path):
    def statement():
        import mpi4py  # noqa: F401

    def function():
        import importlib

        importlib.import_module("mpi4py.util.pkl5")

    for body in (statement, function):
        with pytest.raises(SimulationError, match="imports mpi4py, but simulated ranks are threads"):
            sg.run_spmd(body, ranks=2)
    mpi4py = pytest.importorskip("mpi4py")  # and so it is loaded already
    with pytest.raises(SimulationError, match="imports mpi4py, but simulated ranks are threads"):
        sg.run_spmd(statement, ranks=2)
    statement()
    assert mpi4py


def test_programs_that_can_do_without_mpi4py_go_on():
    def body():
        try:
            from mpi4py import MPI  # noqa: F401
        except ImportError:
            return "without"

    assert sg.run_spmd(body, ranks=2) == ["without"] * 2


def test_no_grid_while_a_module_is_imported(tmp_path, monkeypatch):
    (tmp_path / "makes_a_grid.py").write_text("import spmd_grid as sg\ngrid = sg.init_grid((-1,))\n")
    monkeypatch.syspath_prepend(tmp_path)

    def body():
        import makes_a_grid  # noqa: F401

    with pytest.raises(SimulationError, match="init_grid while a module is being imported"):
        sg.run_spmd(body, ranks=2)
    assert "makes_a_grid" not in sys.modules


def test_modules_that_import_one_another_arrive_complete(tmp_path, monkeypatch):
    """Python would hand out ``circle.inner.types`` half made, when two threads enter the circle at two points."""
    (tmp_path / "circle" / "inner").mkdir(parents=True)
    (tmp_path / "circle" / "__init__.py").write_text(
        "import time; time.sleep(0.3)\nfrom circle.inner import types\nlast = 1\n"
    )
    (tmp_path / "circle" / "inner" / "__init__.py").write_text("from circle.inner import types\n")
    (tmp_path / "circle" / "inner" / "types.py").write_text("import circle, time; time.sleep(0.1)\nlast = 2\n")
    monkeypatch.syspath_prepend(tmp_path)

    def body():
        import importlib

        rank = world().rank
        time.sleep(0.06 * rank)
        if rank % 2 == 0:
            import circle

            return circle.last, circle.inner.types.last
        types = importlib.import_module("circle.inner.types")
        return sys.modules["circle"].last, types.last

    try:
        assert sg.run_spmd(body, ranks=8) == [(1, 2)] * 8
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "circle"]:
            del sys.modules[name]
