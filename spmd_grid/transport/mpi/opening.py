"""The world of a user's communicator, from the first use of the communicator to its end, or the program's."""

from __future__ import annotations

import atexit
import os
import sys
import traceback

from spmd_grid.errors import CutOffError, SpmdError, TransportError
from spmd_grid.numerals import is_natural
from spmd_grid.transport.gate import FORKED
from spmd_grid.transport.mpi.communicator import MpiCommunicator
from spmd_grid.transport.mpi.library import MPI, abort
from spmd_grid.transport.mpi.liveness.forked_children import end_child, note_ends_of_children
from spmd_grid.transport.mpi.liveness.signals import postponed_signals
from spmd_grid.transport.mpi.world import World

__all__ = ["is_communicator", "open_world"]

_LAUNCHER_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


def _check_launcher(comm: MPI.Intracomm) -> None:
    """Raises TransportError if the launcher started more processes than MPI sees."""
    for name in _LAUNCHER_SIZES:
        promised = os.environ.get(name, "")
        if comm.size == 1 and is_natural(promised) and int(promised) > 1:
            raise TransportError(
                f"the launcher started {promised} processes ({name}) but MPI sees only this one; the launcher and the"
                f" MPI library ({MPI.Get_library_version().splitlines()[0]}) do not belong together: use the mpiexec"
                " that came with the library"
            )


_owner = os.getpid()  # the process that has initialised MPI
_worlds: list[World] = []
_keyval: int | None = None


def open_world(user_comm: MPI.Intracomm | None = None) -> MpiCommunicator:
    """The communicator over ``user_comm`` (default: all processes), made on first use.  Collective over it."""
    global _keyval
    if user_comm is None:
        user_comm = MPI.COMM_WORLD
    if os.getpid() != _owner:
        raise CutOffError(f"init_grid: {FORKED}")
    if MPI.Is_finalized():
        raise TransportError("MPI has been finalized; grids must be made before that")
    if _keyval is None:
        _check_launcher(MPI.COMM_WORLD)
        _keyval = MPI.Comm.Create_keyval(delete_fn=lambda comm, keyval, attribute: _forget(attribute.world))
        _close_before_the_end()
    communicator = user_comm.Get_attr(_keyval)
    if not isinstance(communicator, MpiCommunicator):
        with postponed_signals():  # a handler that raises would leave the others waiting within MPI
            communicator = _make_world(user_comm, _keyval)
    lifeline = communicator.world.lifeline
    if lifeline is not None:
        lifeline.take_signals()
    return communicator


def _make_world(user_comm: MPI.Intracomm, keyval: int) -> MpiCommunicator:
    """The communicator over a new world, which becomes an attribute of ``user_comm``."""
    try:
        world = World(user_comm)
        groups: dict[tuple[int, ...], MpiCommunicator] = {}
        world.groups = groups
        communicator = MpiCommunicator(world, tuple(range(world.comm.size)), groups)
        communicator.comm = world.comm
        _worlds.append(world)
        user_comm.Set_attr(keyval, communicator)
        return communicator
    except SpmdError:  # all raise it
        raise
    except BaseException:  # of this process alone: the others wait for it, and there is no lifeline yet to tell them
        if user_comm.size > 1:
            _end_job(user_comm)
        raise


def _end_job(comm: MPI.Intracomm) -> None:
    """Ends the job of a process that cannot join the others; prints the traceback."""
    text = f"spmd_grid: rank {comm.rank} of {comm.size} cannot join the others; the job is ended"
    print(f"{text}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    abort()


def is_communicator(comm: object) -> bool:
    """Whether ``comm`` is an intracommunicator of mpi4py that this process is in."""
    return isinstance(comm, MPI.Intracomm) and comm != MPI.COMM_NULL


def _close_before_the_end() -> None:
    """Arranges that all worlds are closed when the program ends, or when it finalizes MPI itself."""
    keyval = MPI.Comm.Create_keyval(delete_fn=lambda *_: _close_worlds())
    MPI.COMM_SELF.Set_attr(keyval, True)  # the first act of MPI_Finalize is to delete this
    note_ends_of_children()
    atexit.register(_at_exit, keyval)


def _at_exit(keyval: int) -> None:
    if MPI.Is_finalized():
        return
    if os.getpid() != _owner:
        end_child()
    MPI.COMM_SELF.Delete_attr(keyval)


def _forget(world: World) -> None:
    """Frees ``world``, whose communicator the user has freed."""
    if world in _worlds:
        _worlds.remove(world)
        world.free()


def _close_worlds() -> None:
    if os.getpid() != _owner:
        return  # a forked child: the worlds are its parent's
    for world in reversed(_worlds):
        world.close()
    _worlds.clear()
