"""PID namespaces of the processes of a machine, such as those of containers, and a proof of MPI's way between them.

MPI libraries let the system copy large messages out of the sender's memory (CMA, `process_vm_readv`), and name the
sender by its process number.  In another PID namespace that number is another process, or none: MPICH delivers what it
finds there, without an error.  So wherever processes of a machine are in different namespaces, each sends random bytes
to each such other one, before MPI carries anything of the program.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import NoReturn, cast

import numpy as np

from spmd_grid.errors import TransportError
from spmd_grid.transport.communicator import tag_of
from spmd_grid.transport.mpi.library import MPI, abort
from spmd_grid.transport.process_numbers import (
    FAILED,
    RIGHT,
    WRONG,
    Surroundings,
    advice,
    because,
    have_strangers,
    pid_namespace,
    refusal,
    strangers,
)
from spmd_grid.watch.trace.writer import machine

__all__ = ["prove_messages"]

# More than any library sends in pieces through memory that it shares, unless it was told to.
_BYTES = 1 << 20
_SECONDS = 60.0  # that the bytes of one process may take
_NAP = 1e-4
_TAG = tag_of("meetings")

_kept: list[object] = []  # buffers that MPI may still write to


def prove_messages(comm: MPI.Intracomm) -> None:
    """Prove that large messages arrive whole between the PID namespaces of each machine.  Collective.

    Raises TransportError, on all processes alike, if any arrives with other bytes or fails.  Ends the job if one does
    not arrive.
    """
    # Everything sent here but the proof itself is so small that no library has it copied by the system.
    namespace = pid_namespace() or (-1 - comm.rank if sys.platform == "linux" else 0)
    mine, most = np.array([namespace, -namespace]), np.zeros(2, np.int64)
    comm.Allreduce(mine, most, MPI.MAX)
    if most[0] == -most[1]:
        return
    nonce = os.urandom(_BYTES)
    node = cast(MPI.Intracomm, comm.Split_type(MPI.COMM_TYPE_SHARED))
    first = node.bcast(comm.rank)
    node.Free()
    row = np.array([_number(machine().encode()), namespace, first, _number(nonce)])
    table = np.zeros((comm.size, len(row)), np.int64)
    comm.Allgather(row, table)
    processes, digests = [Surroundings(*each[:3]) for each in table.tolist()], table[:, 3].tolist()
    if have_strangers(processes):
        _judge(comm, processes, _exchange(comm, set(strangers(processes, comm.rank)), nonce, digests))


def _number(content: bytes) -> int:
    return int.from_bytes(blake2b(content, digest_size=8).digest(), sys.byteorder, signed=True)


def _exchange(comm: MPI.Intracomm, others: Collection[int], nonce: bytes, digests: Sequence[int]) -> tuple[int, int]:
    """Send the bytes to all ``others`` and receive theirs: what was worst, and with which process.

    Collective over all that are one another's others.
    """
    own, came = np.frombuffer(bytearray(nonce), np.uint8), np.zeros(_BYTES, np.uint8)
    deadline = time.monotonic() + _SECONDS
    worst = RIGHT, comm.rank
    for step in range(1, comm.size):
        source, target = (comm.rank - step) % comm.size, (comm.rank + step) % comm.size
        requests = []
        if source in others:
            requests.append((source, comm.Irecv([came, _BYTES, MPI.BYTE], source, _TAG)))
        if target in others:
            requests.append((target, comm.Isend([own, _BYTES, MPI.BYTE], target, _TAG)))
        for other, request in requests:
            outcome = _wait(request, deadline)
            if outcome is None:
                _kept.extend([own, came, requests])
                _end_job(comm, f"a message of {_BYTES} bytes between it and rank {other}")
            worst = max(worst, (outcome, other))
        if source in others and _number(came.tobytes()) != digests[source]:
            worst = max(worst, (WRONG, source))
    return worst


def _wait(request: MPI.Request, deadline: float) -> int | None:
    """The outcome of a request; None if it does not end in time.  Errors are MPI's, at whatever it did meanwhile."""
    try:
        while not request.Test():
            if time.monotonic() > deadline:
                return None
            time.sleep(_NAP)
    except MPI.Exception:
        return FAILED
    return RIGHT


def _judge(comm: MPI.Intracomm, processes: Sequence[Surroundings], worst: tuple[int, int]) -> None:
    """Raises TransportError, on all processes alike, unless all bytes came well.  Collective."""
    mine, table = np.array(worst), np.zeros((comm.size, 2), np.int64)
    request = comm.Iallgather(mine, table)
    if _wait(request, time.monotonic() + 2 * _SECONDS) != RIGHT:
        _kept.extend([mine, table, request])
        _end_job(comm, "what the others say of large messages")
    text = refusal(processes, table.tolist(), MPI.Get_library_version())
    if text:
        raise TransportError(text)


def _end_job(comm: MPI.Intracomm, what: str) -> NoReturn:
    """Ends the job, of which this process has waited without an answer for ``what``."""
    text = (
        f"spmd_grid: rank {comm.rank} of {comm.size} has waited for {_SECONDS:g} s for {what}. {because(0)}."
        f" {advice(MPI.Get_library_version())}. The job is ended"
    )
    print(text, file=sys.stderr, flush=True)
    abort()
    raise TransportError(text)  # MPI ends this process before
