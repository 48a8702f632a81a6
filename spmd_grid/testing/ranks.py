"""Run a function on the first processes of the MPI world, and share the outcome with all processes.

Tests return and raise anything, so outcomes are pickled: the processes of a test run trust one another.
"""

from __future__ import annotations

import pickle
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from spmd_grid.exchange.agreement.learn_facts import swap_texts
from spmd_grid.transport.communicator import Communicator
from spmd_grid.transport.launch import as_communicator, current_world, use_world

if TYPE_CHECKING:
    from spmd_grid.transport.mpi.communicator import MpiCommunicator

__all__ = ["gather_objects", "is_shared", "meet", "prepare_to_meet", "run_on_mpi", "world_size"]

# Seconds that a failed process waits for the others before it ends the job: they may wait for it in the body.
_PATIENCE_SECONDS = 20.0

# The same where it failed outside of a body: what the others do meanwhile is as short.
_SHORT_PATIENCE_SECONDS = 10.0

# The pickled result of a body, or its pickled exception if it has one, and its traceback.
Outcome: TypeAlias = tuple[bytes | None, bytes | None, str | None]

# The beginning of the note of an exception that all processes raise.
_RAISED = "raised on process "

# Protocol 4, the default of older Pythons, loses the byte order of arrays.
_PROTOCOL = pickle.HIGHEST_PROTOCOL


def world_size() -> int:
    """Number of processes of the program.  Local, after the first call."""
    return current_world().size


def run_on_mpi(ranks: int, body: Callable[..., Any], *args: Any) -> list[Any]:
    """The results of ``body(*args)`` by rank, on the first ``ranks`` processes; known to all processes.

    Collective over the world.  If the body fails on one process, its exception is raised on all.
    """
    world = current_world()
    outcome: Outcome = None, None, None
    if world.rank < ranks:
        with use_world(world.subgroup(range(ranks))):
            outcome = _outcome(body, args)
    text = outcome[2] and f"a test failed on process {world.rank}, and the others wait elsewhere\n{outcome[2]}"
    outcomes = _gathered(outcome, text, _PATIENCE_SECONDS)
    for outcome in outcomes:
        if isinstance(outcome, str):  # from `meet`: that process will not take part in this test, nor in the next
            world.abort(outcome)
    for rank, (_, error, text) in enumerate(outcomes):
        if text is not None:
            error = AssertionError("the body failed") if error is None else pickle.loads(error)
            error.add_note(f"{_RAISED}{rank} of {ranks}:\n{text}")
            raise error
    return [pickle.loads(result) for result, _, _ in outcomes[:ranks]]


def is_shared(error: BaseException) -> bool:
    """Whether `run_on_mpi` raised ``error`` on all processes.  Local."""
    return any(note.startswith(_RAISED) for note in getattr(error, "__notes__", ()))


def meet(failure: str | None) -> list[str | None]:
    """Tells the others of a failure outside of a body, if there is one; the failures of all processes, in their order.

    Collective over the world.  If the others do not come, because they wait for a process that failed elsewhere, the
    job ends with the text of its failure.
    """
    text = failure and f"{failure}\nThe other processes wait elsewhere: the job is ended."
    return _gathered(failure, text, _SHORT_PATIENCE_SECONDS)


def prepare_to_meet() -> Communicator:
    """The communicator of outcomes, which is made when this is called first.  Collective over the world that time.

    It is one of its own: after a failure, messages of the body may be left on the other one.  A body on some of the
    processes may begin to record operations: what that needs of all of them is made as well.
    """
    world = cast("MpiCommunicator", current_world())
    world.world.prepare_to_record()
    return as_communicator(world.comm)


def _gathered(value: object, failure: str | None, patience: float) -> list[Any]:
    """The values of all processes; one with a failure ends the job if the others do not come in time."""
    world = current_world()
    impatience = None
    if failure is not None:
        impatience = threading.Timer(patience, world.abort, [failure])
        impatience.daemon = True
        impatience.start()
    gathered = gather_objects(prepare_to_meet(), value)
    if impatience is not None:
        impatience.cancel()
    return gathered


def _outcome(body: Callable[..., Any], args: tuple[Any, ...]) -> Outcome:
    """Run the body; its result or its exception, pickled, and the traceback if it raised."""
    try:
        return pickle.dumps(body(*args), _PROTOCOL), None, None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = traceback.format_exc()
        try:
            pickled = pickle.dumps(error)
            pickle.loads(pickled)
        except Exception:
            pickled = None
        return None, pickled, text


def gather_objects(comm: Communicator, value: object) -> list[Any]:
    """The values of all members, pickled on the way.  Collective."""
    return [pickle.loads(text) for text in swap_texts(comm, pickle.dumps(value, _PROTOCOL))]
