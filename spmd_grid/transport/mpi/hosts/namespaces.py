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
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple, NoReturn, cast

import numpy as np

from spmd_grid.errors import TransportError
from spmd_grid.formatting import spans
from spmd_grid.transport.communicator import tag_of
from spmd_grid.transport.mpi.library import MPI, abort
from spmd_grid.transport.process_numbers import pid_namespace
from spmd_grid.watch.trace.writer import machine

__all__ = ["Place", "mend", "prove_messages", "refusal", "strangers"]

# More than any library sends in pieces through memory that it shares, unless it was told to.
_BYTES = 1 << 20
_SECONDS = 60.0  # that the bytes of one process may take
_NAP = 1e-4
_TAG = tag_of("meetings")
_RIGHT, _WRONG, _FAILED = range(3)

# The settings by which libraries leave the system's copies out, by what their versions begin with.
_MENDS = {
    "Open MPI": "OMPI_MCA_smsc=^cma (before version 5: OMPI_MCA_btl_vader_single_copy_mechanism=none)",
    "MVAPICH": "MV2_SMP_USE_CMA=0",
    "MPICH": "MPIR_CVAR_CH4_CMA_ENABLE=0",
}

_kept: list[object] = []  # buffers that MPI may still write to


class Place(NamedTuple):
    """The place of a process: its machine, its PID namespace, and the first process of what MPI calls its node."""

    machine: int
    namespace: int
    node: int


def strangers(places: Sequence[Place], rank: int) -> list[int]:
    """The processes of this one's machine or node whose process numbers it may not use.  Symmetric.

    >>> strangers([Place(1, 7, 0), Place(1, 8, 0), Place(1, 7, 0), Place(2, 9, 3)], 0)
    [1]
    """
    own = places[rank]
    return [
        other
        for other, place in enumerate(places)
        if place.namespace != own.namespace and (place.machine == own.machine or place.node == own.node)
    ]


def mend(library: str) -> str:
    """The setting by which an MPI library, given by its version, leaves the system's copies out.  Local."""
    setting = next((text for name, text in _MENDS.items() if name in library), "what switches CMA off in your library")
    return f"{setting}, or over UCX UCX_TLS=^cma"


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
    places, digests = [Place(*each[:3]) for each in table.tolist()], table[:, 3].tolist()
    if any(strangers(places, rank) for rank in range(comm.size)):
        _judge(comm, places, _exchange(comm, strangers(places, comm.rank), nonce, digests))


def _number(content: bytes) -> int:
    return int.from_bytes(blake2b(content, digest_size=8).digest(), sys.byteorder, signed=True)


def _exchange(comm: MPI.Intracomm, others: Sequence[int], nonce: bytes, digests: Sequence[int]) -> tuple[int, int]:
    """Send the bytes to all ``others`` and receive theirs: what was worst, and with which process.

    Collective over all that are one another's others.
    """
    own, came = np.frombuffer(bytearray(nonce), np.uint8), np.zeros(_BYTES, np.uint8)
    deadline = time.monotonic() + _SECONDS
    worst = _RIGHT, comm.rank
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
            worst = max(worst, (_WRONG, source))
    return worst


def _wait(request: MPI.Request, deadline: float) -> int | None:
    """The outcome of a request; None if it does not end in time.  Errors are MPI's, at whatever it did meanwhile."""
    try:
        while not request.Test():
            if time.monotonic() > deadline:
                return None
            time.sleep(_NAP)
    except MPI.Exception:
        return _FAILED
    return _RIGHT


def _judge(comm: MPI.Intracomm, places: Sequence[Place], worst: tuple[int, int]) -> None:
    """Raises TransportError, on all processes alike, unless all bytes came well.  Collective."""
    mine, table = np.array(worst), np.zeros((comm.size, 2), np.int64)
    request = comm.Iallgather(mine, table)
    if _wait(request, time.monotonic() + 2 * _SECONDS) != _RIGHT:
        _kept.extend([mine, table, request])
        _end_job(comm, "what the others say of large messages")
    text = refusal(places, table.tolist(), MPI.Get_library_version())
    if text:
        raise TransportError(text)


def refusal(places: Sequence[Place], found: Sequence[Sequence[int]], library: str) -> str:
    """The reason to refuse a job, given what was worst on each process; empty if all bytes came well.  Local."""
    bad = [rank for rank, (outcome, _) in enumerate(found) if outcome != _RIGHT]
    if not bad:
        return ""
    rank, (outcome, other) = bad[0], found[bad[0]]
    fact = f"rank {rank} got other bytes than rank {other} sent"
    if outcome == _FAILED:
        fact = f"one between ranks {other} and {rank} failed"
    count = len({places[each].namespace for each in (rank, *strangers(places, rank))})
    return (
        f"init_grid: large messages of MPI do not reach rank{'s' * (len(bad) > 1)} {spans(bad)} whole: {fact}."
        f" {_because(count)}. {_advice(library)}"
    )


def _because(count: int) -> str:
    several = "several PID namespaces" if count < 2 else f"{count} PID namespaces"
    return f"One machine has ranks in {several} (containers), in each of which a process number means another process"


def _advice(library: str) -> str:
    return f"Set {mend(library)}, for all processes, or start one container per host"


def _end_job(comm: MPI.Intracomm, what: str) -> NoReturn:
    """Ends the job, of which this process has waited in vain for ``what``."""
    text = (
        f"spmd_grid: rank {comm.rank} of {comm.size} has waited for {_SECONDS:g} s for {what}. {_because(0)}."
        f" {_advice(MPI.Get_library_version())}. The job is ended"
    )
    print(text, file=sys.stderr, flush=True)
    abort()
    raise TransportError(text)  # MPI ends this process before
