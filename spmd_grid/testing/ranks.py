"""Run a function on the first processes of the MPI world, and share the outcome with all processes."""

from __future__ import annotations

import pickle
import threading
import traceback
from collections.abc import Callable
from typing import Any, TypeAlias

from spmd_grid.exchange.agreement.learn_facts import swap_texts
from spmd_grid.transport.communicator import Communicator
from spmd_grid.transport.launch import as_communicator, current_world, use_world

__all__ = ["gather_objects", "run_on_mpi", "world_size"]

# Seconds that a failed process waits for the others before it ends the job: they may wait for it in the body.
_PATIENCE_SECONDS = 60.0

# The pickled result of a body, or its pickled exception if it has one, and its traceback.
Outcome: TypeAlias = tuple[bytes | None, bytes | None, str | None]

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
    # A communicator of its own: after a failure, messages of the body may be left on the other one.
    outcomes_comm = as_communicator(world.comm)  # type: ignore[attr-defined]  # the world of MPI has one
    outcome: Outcome = None, None, None
    if world.rank < ranks:
        with use_world(world.subgroup(range(ranks))):
            outcome = _outcome(body, args)
    impatience = None
    if outcome[2] is not None:
        text = f"a test failed on process {world.rank}, and the others wait elsewhere\n{outcome[2]}"
        impatience = threading.Timer(_PATIENCE_SECONDS, world.abort, [text])
        impatience.daemon = True
        impatience.start()
    outcomes = gather_objects(outcomes_comm, outcome)
    if impatience is not None:
        impatience.cancel()
    for rank, (_, error, text) in enumerate(outcomes):
        if text is not None:
            error = AssertionError("the body failed") if error is None else pickle.loads(error)
            error.add_note(f"raised on process {rank} of {ranks}:\n{text}")
            raise error
    return [pickle.loads(result) for result, _, _ in outcomes[:ranks]]


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
