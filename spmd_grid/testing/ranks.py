"""Runs a function on the first processes of the MPI world and shares the verdict with all."""

from __future__ import annotations

import pickle
import threading
import traceback
from collections.abc import Callable

import numpy as np

from spmd_grid.transport.communicator import FRAME_BYTES, Communicator
from spmd_grid.transport.launch import current_world, use_world

__all__ = ["gather_objects", "run_on_mpi", "world_size"]

# How long a failed process waits for the others before it ends the job: they may wait for it in the body.
_PATIENCE_SECONDS = 20.0


def world_size() -> int:
    """The number of processes of the program."""
    return current_world().size


def run_on_mpi(ranks: int, body: Callable, *args) -> list:
    """The results of ``body(*args)`` by rank, on the first ``ranks`` processes; known to all processes.

    Collective over the world.  If the body fails on one process, this raises on all.
    """
    world = current_world()
    outcome = True, None
    if world.rank < ranks:
        with use_world(world.subgroup(range(ranks))):
            try:
                outcome = True, body(*args)
            except Exception as error:
                text = traceback.format_exc()
                outcome = False, (type(error), f"on process {world.rank} of {ranks}:\n{text}")
    impatience = None
    if not outcome[0]:
        impatience = threading.Timer(_PATIENCE_SECONDS, world.abort, [f"a test failed {outcome[1][1]}"])
        impatience.daemon = True
        impatience.start()
    outcomes = gather_objects(world, outcome)
    if impatience is not None:
        impatience.cancel()
    for fine, result in outcomes:
        if not fine:
            raise AssertionError(f"the body failed with {result[0].__name__} {result[1]}")
    return [result for _, result in outcomes[:ranks]]


def gather_objects(comm: Communicator, value) -> list:
    """Everybody's value, pickled on the way.  Collective."""
    mine = pickle.dumps(value)
    comm.frame[:8] = len(mine).to_bytes(8, "little")
    data = comm.swap_frames().data
    lengths = [int.from_bytes(data[i * FRAME_BYTES : i * FRAME_BYTES + 8], "little") for i in range(comm.size)]
    received = np.empty(sum(lengths), np.uint8)
    comm.all_gather(np.frombuffer(mine, np.uint8), received, lengths)
    whole, values, start = received.tobytes(), [], 0
    for n in lengths:
        values.append(pickle.loads(whole[start : start + n]))
        start += n
    return values
