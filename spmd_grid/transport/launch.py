"""The processes that a program runs on: MPI's, or simulated ranks, which are started here."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from types import FrameType, ModuleType
from typing import Any, TypeVar

from spmd_grid.errors import GridError, SimulationError
from spmd_grid.transport.communicator import Communicator
from spmd_grid.transport.simulated.communicator import communicator_of_all
from spmd_grid.transport.simulated.import_guard import guard_imports
from spmd_grid.transport.simulated.limits import check_ranks
from spmd_grid.transport.simulated.run_watch import RunWatch
from spmd_grid.transport.simulated.scheduler import RankStopped, Scheduler
from spmd_grid.transport.simulated.world import ThreadWorld

__all__ = [
    "as_communicator",
    "current_world",
    "is_simulated",
    "refuse_grid_during_import",
    "run_programs",
    "run_spmd",
    "use_world",
]

Result = TypeVar("Result")

_here = threading.local()

# Number of calls of run_spmd that are under way.
_n_simulations = 0
_count_lock = threading.Lock()

# After a rank failed the others get this long to unwind by themselves, and again after being interrupted.
_GRACE_SECONDS = 0.5


def current_world() -> Communicator:
    """The communicator over all processes of the running program.

    Collective the first time, when MPI is initialised; Local afterwards.  Inside ``run_spmd`` these are the
    simulated ranks.
    """
    world = getattr(_here, "world", None)
    if world is None:
        if _n_simulations:
            raise SimulationError(
                "a grid is made in a thread that is not a simulated rank while simulated ranks run in this process;"
                " make it in the rank's own thread and hand it over"
            )
        world = _mpi().open_world()
    return world


def as_communicator(comm: Any) -> Communicator:
    """The communicator for the ``comm`` argument of ``init_grid``: a `Communicator`, or one of mpi4py's."""
    if type(comm).__module__.startswith("mpi4py"):  # first: reading the attributes of a null one raises
        if not is_simulated() and _mpi().is_communicator(comm):
            return _mpi().open_world(comm)
    elif isinstance(comm, Communicator):
        return comm
    raise GridError(
        f"comm is {comm!r}; it must be an intracommunicator of mpi4py that this process is in (under MPI only), or None"
        " for all processes"
    )


@cache
def _mpi() -> ModuleType:
    """The transport over MPI, imported at first use; kept, since nothing can be imported at the end of Python."""
    from spmd_grid.transport import mpi

    return mpi


def is_simulated() -> bool:
    """Whether the calling thread is a simulated rank.  Local."""
    return _import_lock() is not None


def _import_lock() -> threading.RLock | None:
    """The lock under which the simulated ranks of one run import modules; None outside of them."""
    return getattr(_here, "import_lock", None)


@contextmanager
def use_world(world: Communicator) -> Iterator[None]:
    """Makes ``world`` the communicator of all processes, for code of this thread within the ``with``."""
    previous = getattr(_here, "world", None)
    _here.world = world
    try:
        yield
    finally:
        _here.world = previous


def run_spmd(
    fn: Callable[..., Result],
    *args: Any,
    ranks: int,
    seed: int | None = None,
    check: bool | None = None,
    timeout: float | None = None,
) -> list[Result]:
    """Runs ``fn(*args)`` on simulated ranks, one thread each, and returns the results by rank.

    Local; needs no MPI.  Inside ``fn``, ``init_grid`` finds the simulated ranks, and each gets the same ``args``
    objects.  The first exception of a rank ends the others and is raised here with a note that names the rank.  A
    rank that returns while others wait for it, and ranks that wait for one another in a circle, are errors too
    (`RankEndedError`, `DeadlockError`), reported at once.  So is, at the end, a message that no rank has received.

    With a ``seed`` the run is deterministic: one rank runs at a time, and the seed decides which rank goes on at each
    communication, and which message a `recv` from any rank takes.

    ``check``: the checking mode, on unless ``SPMD_GRID_CHECK=0``.  ``timeout``: seconds that an operation may wait (by
    default what ``SPMD_GRID_TIMEOUT`` says, else without a limit); if one waits longer, `HangError` reports what every
    rank does.  The clock stops while any rank is at a debugger's prompt, or prepares the first use of an operation.
    A rank that computes in C code and holds the interpreter's lock blocks all of them; after three times the limit
    `faulthandler` prints the position of each thread and ends the whole process.

    Ranks must communicate through spmd_grid only.  They share the globals of imported modules.  A rank may itself call
    ``run_spmd``.  After a failure, a rank that neither communicates nor returns to Python is left behind.

    >>> def fn():
    ...     import spmd_grid as sg
    ...     grid = sg.init_grid((3,))
    ...     return int(sg.all_reduce(grid.rank, grid, [0], "sum"))
    >>> run_spmd(fn, ranks=3)
    [3, 3, 3]
    """
    if not isinstance(ranks, int) or isinstance(ranks, bool) or ranks < 1:
        raise GridError(f"ranks={ranks!r} in run_spmd; it must be a whole number of simulated ranks, at least 1")
    check_ranks(ranks)
    return run_programs([lambda: fn(*args)] * ranks, seed, check, timeout)


def run_programs(
    programs: Sequence[Callable[[], object]],
    seed: int | None = None,
    check: bool | None = None,
    timeout: float | None = None,
    prepare: Callable[[Scheduler], None] | None = None,
) -> list[Any]:
    """Runs one program per simulated rank; the results by rank.  ``prepare`` is called before they begin."""
    size = len(programs)
    world = ThreadWorld(size, seed, check, timeout)
    if prepare is not None:
        prepare(world.scheduler)
    import_lock = threading.RLock()
    results: list[Any] = [None] * size

    def run(rank: int) -> None:
        _here.import_lock = import_lock
        results[rank] = _run_rank(world, rank, programs[rank])

    def is_over() -> bool:
        watch.look()
        return world.scheduler.failure is not None

    threads = _RankThreads(run)
    watch = RunWatch(world, threads.identifiers)
    with guard_imports(_import_lock), _counted_simulation():
        try:
            threads.start(size)
            threads.wait(is_over)
        except BaseException as error:  # Ctrl-C in the main thread, or too many threads
            world.scheduler.stop(error)
            raise
        finally:
            watch.close()
            threads.dismiss()
            world.close()
    _raise_failure(world)
    return results


def _run_rank(world: ThreadWorld, rank: int, program: Callable[[], object]) -> object:
    """Run the program of one rank in its thread; the result, or None after telling the scheduler how it has failed."""
    _here.world = communicator_of_all(world, rank)
    scheduler, result = world.scheduler, None
    try:
        scheduler.begin(rank)
        result = program()
    except RankStopped:
        scheduler.end(rank)
    except SystemExit as exit_:
        scheduler.end(rank, exit_)
    except BaseException as error:
        scheduler.fail(rank, error)
    else:
        scheduler.end(rank)
    finally:
        _here.world.process.end()
    return result


def _raise_failure(world: ThreadWorld) -> None:
    failure, rank = world.scheduler.failure, world.scheduler.failed_rank
    if failure is not None:
        if rank is not None:
            failure.add_note(f"raised on simulated {world.processes[rank].label()} of {len(world.processes)}")
        raise failure
    if (lost := world.lost_messages()) is not None:
        raise lost


@contextmanager
def _counted_simulation() -> Iterator[None]:
    global _n_simulations
    with _count_lock:
        _n_simulations += 1
    try:
        yield
    finally:
        with _count_lock:
            _n_simulations -= 1


class _RankThreads:
    """The threads of one run.

    ``Thread.join`` is not used: after an interrupt (Ctrl-C) it takes a running thread for an ended one.
    """

    def __init__(self, run: Callable[[int], None]):
        self._run = run
        self._threads: dict[int, threading.Thread] = {}  # those that still run, by rank
        self.identifiers: dict[int, int] = {}  # by rank
        self._empty = threading.Event()

    def start(self, size: int) -> None:
        threads = [threading.Thread(target=self._main, args=(r,), name=f"rank {r}", daemon=True) for r in range(size)]
        self._threads = dict(enumerate(threads))
        for thread in threads:
            thread.start()

    def _main(self, rank: int) -> None:
        self.identifiers[rank] = threading.get_ident()
        with suppress(RankStopped):  # may be raised late, when the program of the rank is over
            self._run(rank)
        del self._threads[rank]
        if not self._threads:
            self._empty.set()

    def wait(self, is_over: Callable[[], bool]) -> None:
        """Waits until all threads have ended, or ``is_over()``."""
        while not is_over() and not self._empty.wait(0.05):
            pass

    def dismiss(self) -> None:
        """Makes the remaining threads end, as far as possible."""
        if self._empty.wait(_GRACE_SECONDS):
            return
        for thread in list(self._threads.values()):
            if thread.ident is not None:
                # Ranks that run Python code unwind; those in C code do when they return from it.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(RankStopped))
        self._empty.wait(_GRACE_SECONDS)


def refuse_grid_during_import(frame: FrameType | None) -> None:
    """Raises SimulationError if ``frame`` is within an import by a simulated rank.

    A module is imported once per process, by one of the ranks: the others would never make its grid.
    """
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            raise SimulationError(
                "init_grid while a module is being imported; simulated ranks share modules, so only one of them would"
                " make the grid: make it inside a function, or run the program with mpiexec"
            )
        frame = frame.f_back
