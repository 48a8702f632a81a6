"""A timed model of this machine: whether copying an array into shared memory is faster than sending it.

It is timed once, between two processes of a node, in a few hundredths of a second, and kept on disk by host and MPI
library.  Where it cannot be kept, every program times it.
"""

from __future__ import annotations

import json
import math
import platform
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from time import perf_counter

import numpy as np

from spmd_grid.own_files import folder_of_user, make_folder, read_own, write_own
from spmd_grid.transport.communicator import Communicator, tag_of

__all__ = ["MachineModel", "cached_model", "keep_model", "measure_model"]

_LARGE = 1 << 19
_ROUNDS = 25
_MOST_BYTES = 1 << 12  # of a file that is read
_TAG = tag_of("blocking movements")


@dataclass(frozen=True)
class MachineModel:
    """Seconds: per byte copied within the caches, per message (``latency``), and per byte of a message.

    >>> model = MachineModel(1e-10, 1e-6, 3e-10)
    >>> model.copied_bytes(4096, 1 << 19), MachineModel(1e-10, 1e-6, 1e-10).copied_bytes(4096, 1 << 19)
    (524288, 8192)
    """

    copy: float
    latency: float
    message: float

    def copied_bytes(self, least: int, most: int) -> int:
        """Size up to which copying an array twice, by its owner and by its reader, is as fast as sending it.  Local."""
        found = least
        while found < most and 2 * (2 * found) * self.copy <= self.latency + (2 * found) * self.message:
            found *= 2
        return found

    def __str__(self) -> str:
        copies, messages = (f"{1e-9 / per_byte:.1f} GB/s" for per_byte in (self.copy, self.message))
        return f"copies {copies}, messages {1e6 * self.latency:.1f} us and {messages}"


_FIELDS = [field.name for field in fields(MachineModel)]


def measure_model(comm: Communicator) -> MachineModel | None:
    """The model as the first two members time it; None on the others.  Collective over these two."""
    if comm.rank > 1:
        return None
    small, large, other = np.ones(8, np.uint8), np.ones(_LARGE, np.uint8), np.ones(_LARGE, np.uint8)
    copies: list[float] = []
    trips: dict[int, list[float]] = {8: [], _LARGE: []}
    for _ in range(_ROUNDS):
        began = perf_counter()
        np.copyto(other, large)
        copies.append(perf_counter() - began)
    for buffer, rounds in ((small, 8 * _ROUNDS), (large, _ROUNDS)):  # the first ones also connect the two
        for _ in range(rounds):
            began = perf_counter()
            for turn in (0, 1):
                move = comm.isend if comm.rank == turn else comm.irecv
                comm.wait_all(move(buffer, 1 - comm.rank, _TAG))
            trips[len(buffer)].append((perf_counter() - began) / 2)
    # The least of each: other programs on this machine make things slower, never faster.
    latency, copy = min(trips[8]), min(copies) / _LARGE
    return MachineModel(copy, latency, max((min(trips[_LARGE]) - latency) / _LARGE, copy))


def cached_model(library: str) -> MachineModel | None:
    """The model kept for this host and MPI library; None where there is none, or others may have written it.  Local."""
    folder = folder_of_user()
    if folder is None:
        return None
    with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
        found = json.loads(read_own(folder, _file_name(library), _MOST_BYTES))
        values = [found[name] for name in _FIELDS]
        if all(type(value) is float and 0 < value < math.inf for value in values):
            return MachineModel(*values)
    return None


def keep_model(library: str, model: MachineModel) -> None:
    """Keeps ``model`` for later programs, where the cache folder can be written.  Local."""
    folder = folder_of_user()
    if folder is not None:
        with suppress(OSError):
            make_folder(folder, 0o700)
            write_own(folder, _file_name(library), json.dumps(asdict(model)).encode())


def _file_name(library: str) -> str:
    """The name of a model's file, which depends on all that the times depend on."""
    shape = ",".join(_FIELDS)
    key = blake2b(f"{platform.node()}\n{platform.machine()}\n{library}\n{shape}".encode(), digest_size=8).hexdigest()
    return f"machine-{key}.json"
