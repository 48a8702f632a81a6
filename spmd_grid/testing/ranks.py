"""Runs a function on the first processes of the MPI world and shares the verdict with all."""

from __future__ import annotations

import pickle
import threading
import traceback
from collections.abc import Callable

from spmd_grid.exchange.agreement.facts import swap_texts
from spmd_grid.transport.communicator import Communicator
from spmd_grid.transport.launch import as_communicator, current_world, use_world

__all__ = ["gather_objects", "run_on_mpi", "world_size"]

# How long a failed process waits for the others before it ends the job: they may wait for it in the body.
_PATIENCE_SECONDS = 60.0

# Protocol 4, the default of older Pythons, loses the byte order of arrays.
_PROTOCOL = pickle.HIGHEST_PROTOCOL


def world_size() -> int:
    """The number of processes of the program."""
    return current_world().size


def run_on_mpi(ranks: int, body: Callable, *args) -> list:
    """The results of ``body(*args)`` by rank, on the first ``ranks`` processes; known to all processes.

    Collective over the world.  If the body fails on one process, its exception is raised on all.
    """
    world = current_world()
    # A channel of its own: after a failure the body's may be in disorder.
    verdicts = as_communicator(world.comm)
    outcome = None, None, None
    if world.rank < ranks:
        with use_world(world.subgroup(range(ranks))):
            outcome = _outcome(body, args)
    impatience = None
    if outcome[2] is not None:
        text = f"a test failed on process {world.rank}, and the others do not come to hear of it\n{outcome[2]}"
        impatience = threading.Timer(_PATIENCE_SECONDS, world.abort, [text])
        impatience.daemon = True
        impatience.start()
    outcomes = gather_objects(verdicts, outcome)
    if impatience is not None:
        impatience.cancel()
    for rank, (_, error, text) in enumerate(outcomes):
        if text is not None:
            error = AssertionError("the body failed") if error is None else pickle.loads(error)
            error.add_note(f"raised on process {rank} of {ranks}:\n{text}")
            raise error
    return [pickle.loads(result) for result, _, _ in outcomes[:ranks]]


def _outcome(body: Callable, args: tuple) -> tuple[bytes | None, bytes | None, str | None]:
    """What the body returned or raised, pickled, and the traceback if it raised."""
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


def gather_objects(comm: Communicator, value) -> list:
    """Everybody's value, pickled on the way.  Collective."""
    return [pickle.loads(text) for text in swap_texts(comm, pickle.dumps(value, _PROTOCOL))]
