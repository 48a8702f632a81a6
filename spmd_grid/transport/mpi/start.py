"""Start MPI as mpi4py does, and say so if the other processes of the job keep this one waiting.

In ``MPI_Init`` every process waits for all others.  If one of them has ended before, launchers may not notice, and
mpi4py holds Python's lock while it waits: nothing could be said.  So MPI is started here, without the lock.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Timer

import mpi4py

from spmd_grid.transport.process_numbers import spare_numbers

__all__ = ["start_mpi"]

_NOTICE_SECONDS = 20.0
_LEAST_LIMIT = 60.0  # processes start one after the other, which may take longer than any operation
_MOST_LIMIT = 1e9
_SIZES_AND_RANKS = (("PMI_SIZE", "PMI_RANK"), ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"))
# Said before the first message, in which such ranks crash or wait for ever: there is no error to catch.
_TOO_LATE = (
    "spmd_grid: the program has started MPI before its first grid, in a PID namespace (container) without its launcher:"
    " Open MPI may crash or hang now. Set OMPI_MCA_btl=^sm,vader and OMPI_MCA_smsc=^cma, for all processes"
)
_DEFAULTS = {"initialize": True, "threads": True, "thread_level": "multiple", "finalize": None, "errors": "exception"}


def start_mpi() -> None:
    """Load mpi4py's module ``MPI`` and start MPI.  Collective over all processes of the job.

    Where the program has loaded the module before, or changed how mpi4py starts MPI, or where there is one process,
    this is left to mpi4py.
    """
    rank_and_size = _rank_and_size(os.environ)
    is_late = "mpi4py.MPI" in sys.modules
    if "OMPI_MCA_btl" in spare_numbers(os.environ) and "OMPI_COMM_WORLD_RANK" in os.environ and is_late:
        print(_TOO_LATE, file=sys.stderr, flush=True)
    if rank_and_size is None or is_late or not _starts_as_usual(os.environ):
        return
    rc = mpi4py.rc
    rc.initialize, rc.finalize = False, True  # started here; finalised by mpi4py all the same
    try:
        from mpi4py import MPI
    finally:
        rc.initialize, rc.finalize = True, None
    if not MPI.Is_initialized():
        with _notice(*rank_and_size):
            start = ctypes.CDLL(MPI.__file__).MPI_Init_thread
            code = start(None, None, MPI.THREAD_MULTIPLE, ctypes.byref(ctypes.c_int()))
        if code:
            raise RuntimeError(f"MPI_Init_thread() failed [error code: {code}]")
        for comm in MPI.COMM_SELF, MPI.COMM_WORLD:
            comm.Set_errhandler(MPI.ERRORS_RETURN)  # which mpi4py turns into exceptions


def _rank_and_size(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """This process's rank and the size of the job, as launchers tell them; None where there is one process."""
    for size, rank in _SIZES_AND_RANKS:
        if environment.get(size, "1") != "1" and rank in environment:
            return environment[rank], environment[size]
    return None


def _starts_as_usual(environment: Mapping[str, str]) -> bool:
    """Whether mpi4py would start and finalise MPI in its default way."""
    return not any(name.startswith("MPI4PY_RC_") for name in environment) and all(
        getattr(mpi4py.rc, name, default) == default for name, default in _DEFAULTS.items()
    )


@contextmanager
def _notice(rank: str, size: str) -> Iterator[None]:
    """Print a notice if the body takes long; end the process after ``SPMD_GRID_TIMEOUT`` seconds, or a minute."""
    waiting = f"spmd_grid: rank {rank} of {size} has waited for {{:.3g}} s in MPI_Init for other processes of the job"
    reason = "one that ended before it made its first grid is not reported by every launcher: look for its output"

    def end() -> None:
        print(f"{waiting.format(limit)} (SPMD_GRID_TIMEOUT), and ends; {reason}", file=sys.stderr, flush=True)
        os._exit(1)

    def say() -> None:
        print(f"{waiting.format(_NOTICE_SECONDS)}; {reason}", file=sys.stderr, flush=True)

    timers = [Timer(_NOTICE_SECONDS, say)]
    limit = _limit(os.environ)
    if limit is not None:
        timers.append(Timer(limit, end))
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


def _limit(environment: Mapping[str, str]) -> float | None:
    """Seconds after which the process ends; None where ``SPMD_GRID_TIMEOUT`` has no value, or none that is valid."""
    try:
        seconds = float(environment.get("SPMD_GRID_TIMEOUT", ""))
    except ValueError:
        return None
    return max(seconds, _LEAST_LIMIT) if 0 < seconds < _MOST_LIMIT else None
