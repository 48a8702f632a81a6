"""Which world belongs to a user's communicator, from its first use to its end, or the program's."""

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


def _refuse_lonely_start(comm) -> None:
    for name in _LAUNCHER_SIZES:
        promised = os.environ.get(name, "")
        if comm.size == 1 and is_natural(promised) and int(promised) > 1:
            raise TransportError(
                f"the launcher started {promised} processes ({name}) but MPI sees only this one; the launcher and the"
                f" MPI library ({MPI.Get_library_version().splitlines()[0]}) do not belong together: use the mpiexec"
                " that came with the library"
            )


_owner = os.getpid()  # that has initialised MPI
_worlds: list[World] = []
_keyval = None


def open_world(user_comm=None) -> MpiCommunicator:
    """The communicator over ``user_comm`` (default: all processes), made on first use.  Collective over it."""
    global _keyval
    if user_comm is None:
        user_comm = MPI.COMM_WORLD
    if os.getpid() != _owner:
        raise CutOffError(f"init_grid: {FORKED}")
    if MPI.Is_finalized():
        raise TransportError("MPI has been finalized; grids must be made before that")
    if _keyval is None:
        _refuse_lonely_start(MPI.COMM_WORLD)
        _keyval = MPI.Comm.Create_keyval(delete_fn=lambda comm, keyval, world: _forget(world))
        _close_before_the_end()
    world = user_comm.Get_attr(_keyval)
    if world is None:
        with postponed_signals():  # a handler that raises would leave the others waiting within MPI
            world = _make_world(user_comm)
    if world.lifeline is not None:
        world.lifeline.take_signals()
    return world.everybody


def _make_world(user_comm) -> World:
    try:
        world = World(user_comm)
        _worlds.append(world)
        user_comm.Set_attr(_keyval, world)
        return world
    except SpmdError:  # all raise it
        raise
    except BaseException:  # of this process alone: the others wait for it, and no lifeline tells them yet
        if user_comm.size > 1:
            _end_job(user_comm)
        raise


def _end_job(comm) -> None:
    """Ends the job of a process that cannot join the others, with the traceback that says why."""
    words = f"spmd_grid: rank {comm.rank} of {comm.size} cannot join the others; the job is ended"
    print(f"{words}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    abort()


def is_communicator(comm) -> bool:
    """Whether ``comm`` is an intracommunicator of mpi4py that this process is in."""
    return isinstance(comm, MPI.Intracomm) and comm != MPI.COMM_NULL


def _close_before_the_end() -> None:
    """Closes all worlds when the program ends, or before that if it finalizes MPI itself."""
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
    """The user has freed the communicator of ``world``."""
    if world in _worlds:
        _worlds.remove(world)
        world.free()


def _close_worlds() -> None:
    if os.getpid() != _owner:
        return  # a forked child: the worlds are its parent's
    for world in reversed(_worlds):
        world.close()
    _worlds.clear()
